"""How a fitted estimator shows itself in a notebook: by what it promises, not by its parameters."""

from typing import Any

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.estimates import html_of_fit


class ShownInNotebooks:
    """For an estimator of scikit-learn, which shows its own diagram before it is fitted."""

    privacy_: PrivacySpent
    certificate_: Certificate | NotCertified
    fitted_parameters_: dict[str, Any]

    def _repr_html_(self) -> str:
        """A small table of what is promised, for notebooks; before fitting, scikit-learn's diagram."""
        if not hasattr(self, "privacy_"):
            unfitted: Any = super()
            return unfitted._repr_html_()
        return html_of_fit(self.fitted_parameters_["method"], self.privacy_, self.certificate_)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks ask for first; scikit-learn's version would show only parameters."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
