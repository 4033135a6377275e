"""Everything that training needs, as a value: settings, tokenisers and encoded data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.data.corpus import Corpus
from weft.data.prepare import Prepared
from weft.data.text.tokens import Tokeniser
from weft.spec import Spec


@dataclass(frozen=True)
class Ready:
    """A run that is ready to be trained."""

    spec: Spec
    source: Tokeniser
    target: Tokeniser
    corpus: Corpus
    prepared: Prepared

    @classmethod
    def of(cls, spec: Spec, source: Tokeniser, target: Tokeniser, prepared: Prepared) -> Ready:
        """Encode the training pairs, or read them from the cache."""
        return cls(spec, source, target, prepared.corpus(source, target, spec.data.augmented), prepared)

    def member(self, spec: Spec) -> Ready:
        """Return the same data for another model of the run, turned round if it writes from the other end."""
        if spec.backward == self.spec.backward:
            return replace(self, spec=spec)
        return Ready.of(spec, self.source, self.target.written(spec.backward), self.prepared)


def learn_tokenisers(prepared: Prepared, spec: Spec) -> tuple[Tokeniser, Tokeniser]:
    """Learn the tokenisers of source and target that the settings ask for."""
    sides = [(side.tokens, side.size) for side in (spec.source, spec.target)]
    source, target = prepared.tokenisers(sides[0], sides[1], spec.embed.shared, spec.data.tag_at, spec.data.unseen)
    return source, target.written(spec.backward)
