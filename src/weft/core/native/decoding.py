"""One step of a Transformer's decoder, and products with matrices that do not change any more: jobs of decoding.c."""

# N rows · I inputs · O outputs · D width · H heads · S source length

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.core.native.library import TEAM, WAIT, Tools, team

PANEL = 16  # outputs side by side, as in decoding.c
SIZES = (
    "lanes", "norm_first", "rows", "each", "width", "heads", "blocks", "inner", "source", "length", "room_rows",
)  # fmt: skip
STRIDES = ("of_line", "of_head", "of_place", "mask_of_line")
ARRAYS = (
    "parts", "read", "last", "mask", "stored", "cosines", "sines", "bias", "room", "origin", "x",
    "normed", "asked", "mixed", "wide", "scores",
)  # fmt: skip


class _Product(ctypes.Structure):
    """The struct Product in decoding.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int32) for name in ("lanes", "after")),
        *((name, ctypes.c_int64) for name in ("rows", "x_stride", "y_stride")),
        *((name, ctypes.c_int32) for name in ("inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "x", "y")),
    )


class _Map(ctypes.Structure):
    _fields_ = (
        ("panels", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
    )


class _Norm(ctypes.Structure):
    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p))


class _Block(ctypes.Structure):
    """The struct Block in decoding.c."""

    _fields_ = (
        *((name, _Map) for name in ("own_in", "own_out", "cross_in", "cross_out", "feed_in", "feed_out")),
        *((name, _Norm) for name in ("own", "cross", "feed")),
    )


class _Source(ctypes.Structure):
    _fields_ = (("keys", ctypes.c_void_p), ("values", ctypes.c_void_p))


class _Step(ctypes.Structure):
    """The struct Step in decoding.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM | WAIT),
        *((name, ctypes.c_int32) for name in SIZES),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int64) for name in STRIDES),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


JOBS = (_Product, _Block, _Source, _Step)


class Panels:
    """A matrix (O, I) and a bias (O) in panels: sixteen outputs of an input side by side."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        (self.outputs, self.inputs), bias = weight.shape, None if bias is None else bias.detach()
        more = -self.outputs % PANEL
        panels = pad(weight.detach(), (0, 0, 0, more)).view(-1, PANEL, self.inputs)
        self.panels = panels.transpose(1, 2).contiguous()
        self.bias = None if bias is None else bias.contiguous()

    def as_map(self) -> _Map:
        return _Map(self.panels.data_ptr(), _place(self.bias), self.inputs, self.outputs)


@dataclass(frozen=True)
class Norm:
    weight: Tensor
    bias: Tensor

    def as_norm(self) -> _Norm:
        return _Norm(self.weight.data_ptr(), self.bias.data_ptr())


@dataclass(frozen=True)
class Block:
    """What a block is made of, in the order of the struct."""

    maps: Sequence[Panels]  # own attention in and out (in: query, key and value), the source's, feed-forward
    norms: Sequence[Norm]  # of the three parts

    @property
    def inner(self) -> int:
        return self.maps[4].outputs


class Blocks:
    """All blocks of a decoder and the norm behind them, as the compiled step reads them."""

    def __init__(
        self, blocks: Sequence[Block], last: Norm | None, heads: int, norm_first: bool, epsilon: float
    ) -> None:
        self._kept, self.count = (blocks, last), len(blocks)  # the addresses below are theirs
        self.inner = blocks[0].inner
        self.heads, self.norm_first, self.epsilon = heads, norm_first, epsilon
        parts = (
            _Block(*(one.as_map() for one in block.maps), *(one.as_norm() for one in block.norms)) for block in blocks
        )
        self.parts = (_Block * len(blocks))(*parts)
        self.last = None if last is None else last.as_norm()


@dataclass(frozen=True)
class Sight:
    """What a step looks at: the source's keys and values of each block (lines, H, S, d), one line for `each` rows."""

    source: Sequence[tuple[Tensor, Tensor]]
    mask: Tensor  # (lines, …, S)
    stored: Tensor | None  # (B,) which line the rows look at; None: each their own
    each: int
    room: Tensor  # (places, rows of it, blocks · 2 · D): what is written, and room for this place
    length: int  # with this place
    origin: Tensor | None  # (length, N) the row of the room that holds a row's place; None: its own
    turn: tuple[Tensor, Tensor] | None = None  # cosines and sines (d/2) of this place
    bias: Tensor | None = None  # (H, length)


class Decoding:
    def __init__(self, library: ctypes.CDLL, tools: Tools) -> None:
        self._product, self._step, self._tools = library.weft_product, library.weft_step, tools
        self._product.argtypes, self._product.restype = [ctypes.POINTER(_Product)], None
        self._step.argtypes, self._step.restype = [ctypes.POINTER(_Step)], None
        self.lanes = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8

    def product(self, x: Tensor, matrix: Panels) -> Tensor:
        """x Wᵀ + b, all in float32."""
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], matrix.outputs)
        job = _Product(
            *team(self._tools).values(), self.lanes, 0, x.numel() // matrix.inputs, matrix.inputs, matrix.outputs,
            matrix.inputs, matrix.outputs, matrix.panels.data_ptr(), _place(matrix.bias), x.data_ptr(), y.data_ptr(),
        )  # fmt: skip
        self._product(ctypes.byref(job))
        return y

    def step(self, x: Tensor, blocks: Blocks, sight: Sight) -> Tensor:
        """What the last block makes of x (N, D); the keys and values of this place are put into the room."""
        (rows, width), keys, threads = x.shape, sight.source[0][0], torch.get_num_threads()
        x, longest = x.clone(memory_format=torch.contiguous_format), max(sight.length, keys.shape[2])
        read = (_Source * blocks.count)(*(_Source(k.data_ptr(), v.data_ptr()) for k, v in sight.source))
        sizes = (threads * rows * width, 3 * rows * width, rows * width, rows * blocks.inner, threads * longest)
        room = [x.new_empty(size) for size in sizes]
        job = _Step(
            *team(self._tools).values(), self._tools["wait"],
            self.lanes, blocks.norm_first, rows, sight.each, width, blocks.heads, blocks.count, blocks.inner,
            keys.shape[2], sight.length, sight.room.shape[1], blocks.epsilon,
            *(keys.stride(i) for i in range(3)), sight.mask.stride(0),
            ctypes.addressof(blocks.parts), ctypes.addressof(read),
            None if blocks.last is None else ctypes.addressof(blocks.last),
            sight.mask.data_ptr(), _place(sight.stored),
            *((None, None) if sight.turn is None else (one.data_ptr() for one in sight.turn)),
            _place(sight.bias), sight.room.data_ptr(), _place(sight.origin), x.data_ptr(),
            *(one.data_ptr() for one in room),
        )  # fmt: skip
        self._step(ctypes.byref(job))
        return x


def _place(array: Tensor | None) -> int | None:
    return None if array is None else array.data_ptr()
