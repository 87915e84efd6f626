"""One self-contained page about a saved model or a comparison, for readers who run no code."""
