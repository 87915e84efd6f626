"""Many trainings: what each of them is, where its figures are kept, and how they are spread over processes."""
