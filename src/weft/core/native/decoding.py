"""One step of a Transformer's decoder, and products with matrices that no longer change: the jobs of decoding.c."""

# N rows (hypotheses) · I inputs · O outputs · D width · H heads · d width of a head · S source length

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.core.native.door import address, optional, output, refuse
from weft.core.native.library import BARRIER, TEAM, Library

PANEL = 16  # outputs of a panel, as in decoding.c
SIZES = (
    "lanes", "norm_first", "rows", "rows_per_line", "width", "heads", "blocks", "inner", "source_length", "length",
    "cache_rows", "lines",
)  # fmt: skip
STRIDES = ("line_stride", "head_stride", "position_stride", "mask_stride", "bias_stride")
ARRAYS = (
    "parts", "source", "last", "mask", "line_of", "cosines", "sines", "bias", "cache", "row_of", "x",
    "normed", "projected", "mixed", "hidden", "scores",
)  # fmt: skip
WRONG_INDEX = {1: "line_of names a line that is not there", 2: "row_of names a row of the cache that is not there"}


class _Product(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int32) for name in ("lanes", "then")),
        *((name, ctypes.c_int64) for name in ("rows", "x_stride", "y_stride")),
        *((name, ctypes.c_int32) for name in ("inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "x", "y")),
    )


class _Linear(ctypes.Structure):
    _fields_ = (
        ("panels", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
    )


class _Norm(ctypes.Structure):
    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p))


class _Block(ctypes.Structure):
    _fields_ = (
        *((name, _Linear) for name in ("self_in", "self_out", "cross_in", "cross_out", "feed_in", "feed_out")),
        *((name, _Norm) for name in ("self", "cross", "feed")),
    )


class _Source(ctypes.Structure):
    _fields_ = (("keys", ctypes.c_void_p), ("values", ctypes.c_void_p))


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM | BARRIER),
        *((name, ctypes.c_int32) for name in SIZES),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int64) for name in STRIDES),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


class Panels:
    """A matrix (O, I) and a bias (O), packed in panels: for each input, the weights of sixteen outputs in a row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        rows = pad(weight.detach(), (0, 0, 0, -self.outputs % PANEL)).reshape(-1, PANEL, self.inputs)
        self.panels = rows.transpose(1, 2).contiguous()
        self.bias = None if bias is None else bias.detach().contiguous()
        self.addresses = (
            address("panels", self.panels, (rows.shape[0], self.inputs, PANEL)),
            optional("bias", self.bias, (self.outputs,)),
        )


@dataclass(frozen=True)
class Norm:
    """The weight and bias (D) of a layer norm."""

    weight: Tensor
    bias: Tensor

    def as_norm(self, width: int) -> _Norm:
        return _Norm(address("norm.weight", self.weight, (width,)), address("norm.bias", self.bias, (width,)))


@dataclass(frozen=True)
class Block:
    """The parameters of a decoder block, in the order of the struct."""

    linears: Sequence[
        Panels
    ]  # self-attention in (query, key and value) and out, cross-attention in and out, feed-forward
    norms: Sequence[Norm]  # of the three parts

    @property
    def inner(self) -> int:
        return self.linears[4].outputs

    def as_block(self, width: int, inner: int) -> _Block:
        shapes = [(linear.inputs, linear.outputs) for linear in self.linears]
        square = (width, width)
        expected = [(width, 3 * width), square, square, square, (width, inner), (inner, width)]
        if shapes != expected:
            raise refuse(f"the matrices of a block must be {expected}, they are {shapes}")
        linears = (_Linear(*linear.addresses, linear.inputs, linear.outputs) for linear in self.linears)
        return _Block(*linears, *(norm.as_norm(width) for norm in self.norms))


class Blocks:
    """All blocks of a decoder and the norm after them, as the compiled step reads them."""

    def __init__(
        self, blocks: Sequence[Block], last: Norm | None, heads: int, norm_first: bool, epsilon: float
    ) -> None:
        self._tensors, self.count = (blocks, last), len(blocks)  # kept alive: C reads them at their addresses
        self.width, self.inner = blocks[0].linears[0].inputs, blocks[0].inner
        if self.width % heads:
            raise refuse(f"{heads} heads do not divide the width {self.width}")
        self.heads, self.norm_first, self.epsilon = heads, norm_first, epsilon
        self.parts = (_Block * len(blocks))(*(block.as_block(self.width, self.inner) for block in blocks))
        self.last = None if last is None else last.as_norm(self.width)


@dataclass(frozen=True)
class StepInputs:
    """What a step reads besides x: the source, and the cache of what is written, into which it writes."""

    source: Sequence[tuple[Tensor, Tensor]]  # keys and values of each block (lines, H, S, d)
    mask: Tensor  # (lines, 1, 1, S)
    line_of: Tensor | None  # (N / rows_per_line,) the line whose source the rows attend to; None: in order
    rows_per_line: int
    cache: Tensor  # (capacity, rows, blocks · 2 · D), with room for this position
    length: int  # this position included
    row_of: Tensor | None  # (length, N) the row of the cache that holds a hypothesis's position; None: its own
    rotation: tuple[Tensor, Tensor] | None = None  # cosines and sines (1, d/2) of this position
    bias: Tensor | None = None  # (H, 1, length), or (blocks, H, 1, length)

    def check(self, rows: int, blocks: int) -> None:
        """Refuse sizes that do not fit together."""
        capacity, cache_rows, _ = self.cache.shape
        if len(self.source) != blocks:
            raise refuse(f"the source has keys for {len(self.source)} blocks, the decoder has {blocks}")
        if rows % self.rows_per_line or (self.line_of is None and rows > len(self.mask) * self.rows_per_line):
            raise refuse(f"{rows} rows, {self.rows_per_line} for each of {len(self.mask)} lines")
        if not 1 <= self.length <= capacity or rows > cache_rows:
            raise refuse(f"{rows} rows of length {self.length} in a cache of {cache_rows} rows of length {capacity}")


class Decoding:
    """The compiled decoder step and matrix product; all tensors are float32."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._product = library.function("weft_product", _Product)
        self._step = library.function("weft_step", _Step, ctypes.c_int64)
        self.lanes = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8

    def product(self, x: Tensor, matrix: Panels) -> Tensor:
        """Return x Wᵀ + b."""
        x, inputs, outputs = x.contiguous(), matrix.inputs, matrix.outputs
        y = x.new_empty(*x.shape[:-1], outputs)
        job = _Product(
            *self._library.team(), self.lanes, 0, x.numel() // inputs, inputs, outputs, inputs, outputs,
            *matrix.addresses, address("x", x, (*x.shape[:-1], inputs)), output(y),
        )  # fmt: skip
        self._product(ctypes.byref(job))
        return y

    def step(self, x: Tensor, blocks: Blocks, inputs: StepInputs) -> Tensor:
        """Return what the last block makes of x (N, D); the keys and values of this position are put into the cache."""
        (rows, width), length, threads = (len(x), blocks.width), inputs.length, torch.get_num_threads()
        inputs.check(rows, blocks.count)
        x, keys = x.clone(memory_format=torch.contiguous_format), inputs.source[0][0]
        lines, source_length, cache_rows = inputs.mask.shape[0], keys.shape[2], inputs.cache.shape[1]
        half, longest = width // blocks.heads // 2, max(length, source_length)
        cosines, sines = inputs.rotation or (None, None)
        source = _source(inputs, blocks)
        scratch, addresses = _scratch(
            x, (threads * rows * width, 3 * rows * width, rows * width, rows * blocks.inner, threads * longest)
        )
        mask_strides = (inputs.mask.stride(0), source_length, source_length, 1)
        bias_stride = blocks.heads * length if inputs.bias is not None and inputs.bias.dim() == 4 else 0
        job = _Step(
            *self._library.team(), self._library.functions["barrier"],
            self.lanes, blocks.norm_first, rows, inputs.rows_per_line, width, blocks.heads, blocks.count, blocks.inner,
            source_length, length, cache_rows, lines, blocks.epsilon, *keys.stride()[:3], mask_strides[0], bias_stride,
            ctypes.addressof(blocks.parts), ctypes.addressof(source),
            None if blocks.last is None else ctypes.addressof(blocks.last),
            address("mask", inputs.mask, (lines, 1, 1, source_length), torch.bool, mask_strides),
            optional("line_of", inputs.line_of, (rows // inputs.rows_per_line,), torch.int64),
            optional("cosines", cosines, (1, half)), optional("sines", sines, (1, half)),
            optional("bias", inputs.bias, ((blocks.count,) if bias_stride else ()) + (blocks.heads, 1, length)),
            address("cache", inputs.cache, (inputs.cache.shape[0], cache_rows, blocks.count * 2 * width)),
            optional("row_of", inputs.row_of, (length, rows), torch.int64), address("x", x, (rows, width)),
            *addresses,
        )  # fmt: skip
        wrong = self._step(ctypes.byref(job))
        del scratch  # in use until here
        if wrong:
            raise IndexError(f"compiled code: {WRONG_INDEX[wrong]}")
        return x


def _scratch(like: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Iterator[int]]:
    """Allocate several arrays at once: the tensor that holds them, and their addresses."""
    tensor = like.new_empty(sum(sizes))
    return tensor, accumulate((4 * size for size in sizes[:-1]), initial=output(tensor))


def _source(inputs: StepInputs, blocks: Blocks) -> ctypes.Array[_Source]:
    """The addresses of the source's keys and values, which are laid out alike in all blocks."""
    keys = inputs.source[0][0]
    shape, strides = (inputs.mask.shape[0], blocks.heads, keys.shape[2], blocks.width // blocks.heads), keys.stride()
    if strides[3] != 1:
        raise refuse("the last dimension of the source's keys must be contiguous")
    return (_Source * blocks.count)(
        *(
            _Source(address("keys", k, shape, strides=strides), address("values", v, shape, strides=strides))
            for k, v in inputs.source
        )
    )
