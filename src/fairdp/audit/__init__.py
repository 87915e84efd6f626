"""Audits of the privacy claim: what a stranger would try, as a command."""
