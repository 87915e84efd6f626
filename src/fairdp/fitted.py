"""What a fitted model says of itself: guarantees in words and tables, metrics on labelled records, its saved form."""

from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fairdp.artifacts import read_model, write_model
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.record import certificate_statement, estimated_metrics
from fairdp.evaluation import Evaluation, evaluation_of
from fairdp.metrics import collapse_warning
from fairdp.notebook import html_table
from fairdp.privacy import PrivacySpent
from fairdp.saving import loaded_form, saved_form
from fairdp.training.models import ExtractorBuilder


class FittedModelMixin:
    """Everything of an estimator that needs no training and makes no prediction of its own."""

    method: str
    privacy_: PrivacySpent
    certificate_: Certificate | NotCertified

    def privacy_statement(self) -> str:
        """The privacy guarantee in words."""
        check_is_fitted(self)
        return self.privacy_.statement()

    def certificate_statement(self) -> str:
        """The fairness certificate in words, with what it does not promise."""
        check_is_fitted(self)
        return certificate_statement(self.certificate_)

    def evaluate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        confidence: float = 0.95,
        random_state: int = 0,
    ) -> Evaluation:
        """Metrics on labelled records by group, as fairlearn's ``MetricFrame``, with an interval for every gap.

        Exact figures of real records: for the data holder's eyes, outside the privacy guarantee.
        """
        check_is_fitted(self)
        return evaluation_of(
            self, X, y, sensitive_features=sensitive_features, confidence=confidence, random_state=random_state
        )

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, whole or not at all."""
        check_is_fitted(self)
        write_model(Path(folder), saved_form(self))

    @classmethod
    def load(cls, folder: str | Path, *, module: ExtractorBuilder | None = None) -> Self:
        """Read a saved model; one trained with an own module needs that module's builder again."""
        loaded: Self = loaded_form(cls, read_model(Path(folder)), module)
        return loaded

    def _repr_html_(self) -> str:
        """A small table of what is promised, for notebooks; before fitting, scikit-learn's diagram."""
        if not hasattr(self, "privacy_"):
            unfitted: Any = super()
            return unfitted._repr_html_()
        rows, note = [("method", self.method)], ""
        if isinstance(self.certificate_, Certificate):
            # A gap is worth nothing without the rate of positive decisions beside it.
            rate = estimated_metrics(self.certificate_)["positive_rate"]
            rows.append(("estimated positive rate", f"{rate:.4f}"))
            note = collapse_warning(rate) or ""
        named = html_table("Fitted FairDPClassifier", rows, note)
        return named + self.privacy_._repr_html_() + self.certificate_._repr_html_()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks ask for first; scikit-learn's own would show parameters only."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
