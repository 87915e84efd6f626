"""A deployed model as an ONNX file: scores and decisions without this program, tied to its certificate by hash."""

import importlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import fairdp
from fairdp._io import write_out
from fairdp.data.schema import TableSchema
from fairdp.errors import InputError, ParameterError, SavedModelError
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, public_probe
from fairdp.saved.folder import CERTIFICATE, PRIVACY, SUMS, TENSORS, FittedEstimator, write_model
from fairdp.statements.certificate import promise_of_export

OPSET = 18
# By which a file may differ from the model on the probe: far above rounding, far below another model.
_TOLERANCE = 1e-4
_OUTCOME = """
outcome (float[n] {score}) => (float[n] score, float[n] probability, int64[n] decision) {{
  score = Identity ({score})
  probability = Sigmoid (score)
  threshold = Constant <value = float {{0.0}}> ()
  is_positive = GreaterOrEqual (score, threshold)
  decision = Cast <to = 7> (is_positive)
}}"""
# What a joint model believes of the label is not what it decides by.
_JOINT_OUTCOME = """
outcome (float[n, 2] {score}) => (float[n] score, float[n] probability, int64[n] decision) {{
  score_column, probability_column = Split <axis = 1, num_outputs = 2> ({score})
  columns = Constant <value = int64[1] {{1}}> ()
  score = Squeeze (score_column, columns)
  probability = Squeeze (probability_column, columns)
  threshold = Constant <value = float {{0.0}}> ()
  is_positive = GreaterOrEqual (score, threshold)
  decision = Cast <to = 7> (is_positive)
}}"""
_ONE_RECORD = """
one_record (float[n] record) => (float record_score) {
  first_axis = Constant <value = int64[1] {0}> ()
  record_batch = Unsqueeze (record, first_axis)
  record_score = Squeeze (traced_score, first_axis)
}"""
# The logit of the mean chance over draws, in double precision. Logs throughout: chances far from a half would round to
# zero or one. LogSoftmax of a score and zero is the log of the chance and of its complement.
_MEAN_CHANCE = """
mean_chance (float[d, n] draw_scores) => (float[n] mean_score) {
  draw_logits = Cast <to = 11> (draw_scores)
  last_axis = Constant <value = int64[1] {-1}> ()
  logit_column = Unsqueeze (draw_logits, last_axis)
  zero_behind = Constant <value = int64[6] {0, 0, 0, 0, 0, 1}> ()
  logits_and_zeros = Pad (logit_column, zero_behind)
  log_chances = LogSoftmax (logits_and_zeros)
  draw_axis = Constant <value = int64[1] {0}> ()
  log_sums = ReduceLogSumExp (log_chances, draw_axis)
  log_positive, log_negative = Split <axis = 2, num_outputs = 2> (log_sums)
  mean_logit = Sub (log_positive, log_negative)
  mean_row = Reshape (mean_logit, last_axis)
  mean_score = Cast <to = 1> (mean_row)
}"""


def write_onnx(model: FittedEstimator, out: str | Path) -> None:
    """Write the model to an ONNX file, whole or not at all."""
    check_ending(Path(out))
    write_out(Path(out), onnx_bytes(model))


def onnx_bytes(model: FittedEstimator) -> bytes:
    """The content of an ONNX file: records in; their scores, probabilities and decisions out.

    Its metadata name, by their hashes, the files that ``model.save`` writes. Refused with a `SavedModelError`: a model
    whose decisions do not follow from the features alone, and a module that torch cannot export.
    """
    check_is_fitted(model)
    check_exportable(model)
    with TemporaryDirectory() as folder:
        write_model(Path(folder) / "model", model.fitted_)
        hashes = hashes_in(Path(folder) / "model")
    return described_onnx(model, hashes)


def check_ending(out: Path) -> None:
    if out.suffix.lower() != ".onnx":
        raise ParameterError("out", str(out), "must end in .onnx")


def check_exportable(model: FittedEstimator) -> None:
    if model.fitted_.predictor.tosses_coins:
        how = "by a secret coin for each person" if model.fitted_.predictor.flips is None else "by group"
        changing = [name for name, method in METHODS.items() if method.post_processes]
        raise SavedModelError(
            f"this model decides {how}, but an ONNX file knows the features only; use fairdp predict, or train with "
            f"`predictor`='deterministic' and by another method than {' or '.join(changing)}."
        )
    for name in ("onnx", "onnxruntime", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError:
            raise InputError(f"ONNX files need {name}, which is missing; run pip install 'fairdp[onnx]'.") from None


def hashes_in(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a saved model, by their names."""
    lines = (folder / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def described_onnx(model: FittedEstimator, hashes: Mapping[str, str]) -> bytes:
    from onnx import helper

    proto = deployed(model.score_model_)
    helper.set_model_props(proto, _described(model, hashes))
    content: bytes = proto.SerializeToString(deterministic=True)
    _check_scores(content, model.score_model_)
    return content


def _described(model: FittedEstimator, hashes: Mapping[str, str]) -> dict[str, str]:
    """Metadata for a reader of the file; ONNX holds texts only."""
    schema = None if model.fitted_.feature_schema is None else TableSchema.from_dict(model.fitted_.feature_schema)
    classes = list(model.fitted_.classes) if schema is None else [schema.negative, schema.positive]
    names = list(getattr(model, "feature_names_in_", [])) if schema is None else list(schema.feature_names)
    return {
        "fairdp_version": fairdp.__version__,
        "method": model.fitted_.parameters.method,
        "epsilon": str(model.fitted_.privacy.epsilon),
        "delta": str(model.fitted_.privacy.delta),
        "certificate_sha256": hashes[CERTIFICATE],
        "privacy_sha256": hashes[PRIVACY],
        "model_sha256": hashes[TENSORS],
        "classes": json.dumps(classes, ensure_ascii=False),
        **({"feature_names": json.dumps(names, ensure_ascii=False)} if names else {}),
        "promise": promise_of_export(model.fitted_.certificate, by_schema=schema is not None),
    }


def _check_scores(content: bytes, model: ScoreModel) -> None:
    """Refuse a file that does not score as the model does: it would not be what was certified."""
    import onnxruntime

    options, probe = onnxruntime.SessionOptions(), public_probe(model)
    options.log_severity_level = 4
    with in_one_line():
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        given = session.run(["score", "probability"], {"records": probe.numpy()})
    expected = (model.scores(probe).numpy(), model.probabilities(probe).numpy())
    if not all(
        np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        for pair in zip(given, expected, strict=True)
    ):
        raise SavedModelError("the ONNX file does not score as the model does; use layers without chance or state.")


def deployed(model: ScoreModel) -> Any:
    """The graph from records to score, probability and decision."""
    from onnx import TensorProto, helper, parser

    nodes, weights, score = _score_nodes(model)
    records = helper.make_tensor_value_info("records", TensorProto.FLOAT, ["n", *model.shape])
    outcome = parser.parse_graph((_JOINT_OUTCOME if model.n_cells else _OUTCOME).format(score=score))
    graph = helper.make_graph([*nodes, *outcome.node], "deployed", [records], list(outcome.output), weights)
    operators = [helper.make_opsetid("", OPSET)]
    # The oldest format that knows these operators: readers refuse one that is newer than they are.
    oldest = helper.find_min_ir_version_for(operators)
    return helper.make_model(graph, opset_imports=operators, ir_version=oldest, producer_name="fairdp")


def _score_nodes(model: ScoreModel) -> tuple[list[Any], list[Any], str]:
    """Nodes and weights that make scores of the records, and the name of these scores.

    Those of a joint model are pairs: what a positive decision is worth, and the chance of label 1.
    """
    from onnx import parser
    from onnx.numpy_helper import from_array

    nodes, weights, score = *_traced(model), "traced_score"
    if not model.keeps_records_apart:
        axis, to_batch, from_batch = parser.parse_graph(_ONE_RECORD).node
        body = [axis, to_batch, *nodes, from_batch]
        each = [2] if model.n_cells else []
        nodes, weights, score = [_loop("record", model.shape, body, weights, "record_score", each)], [], "record_scores"
    if model.smoothing is not None:
        loop = _loop("draw", [len(model.params)], nodes, weights, score, ["n"])
        nodes, weights = [loop, *parser.parse_graph(_MEAN_CHANCE).node], [from_array(_draws(model).numpy(), "draws")]
        score = "mean_score"
    return nodes, weights, score


def _loop(entry: str, shape: Any, nodes: list[Any], weights: list[Any], result: str, result_shape: list[Any]) -> Any:
    """The nodes for one record or draw at a time: no other is seen, and memory for one is enough."""
    from onnx import TensorProto, helper

    one_record = helper.make_tensor_value_info(entry, TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info(result, TensorProto.FLOAT, result_shape)
    body = helper.make_graph(nodes, f"one_{entry}", [one_record], [made], weights)
    return helper.make_node("Scan", [f"{entry}s"], [f"{entry}_scores"], body=body, num_scan_inputs=1)


class _Score(nn.Module):
    """Scores of records by the mean head, with the trained parameters or with given ones in their place."""

    def __init__(self, model: ScoreModel) -> None:
        super().__init__()
        self.extractor, self.slices, self.head_at = model.extractor, model.slices, model.n_extractor_params
        self.head, self.width = model.heads.mean(0), model.width

    def forward(self, records: Tensor, draw: Tensor | None = None) -> Tensor:
        parameters, head = {}, self.head
        if draw is not None:
            parameters = {
                name: draw[at].view_as(self.extractor.get_parameter(name)) for name, at in self.slices.items()
            }
            head = draw[self.head_at :].view(-1, len(head)).mean(0)
        embeddings = torch.func.functional_call(self.extractor, parameters, (records,)).flatten(1)
        return (embeddings @ head[: self.width, None] + head[self.width :].sum()).flatten()


class _JointScore(nn.Module):
    """Score and probability of records by a joint model, shape (n_records, 2); beyond the embedding in doubles."""

    def __init__(self, model: ScoreModel) -> None:
        super().__init__()
        assert model.cell_values is not None
        self.extractor, self.heads, self.values = model.extractor, model.heads.double(), model.cell_values

    def forward(self, records: Tensor) -> Tensor:
        embeddings = self.extractor(records).flatten(1).double()
        chances = (embeddings @ self.heads[:, :-1].T + self.heads[:, -1]).softmax(1)
        is_positive = torch.arange(len(self.heads), dtype=torch.float64) % 2
        return (chances @ torch.stack([self.values, is_positive], 1)).float()


def _traced(model: ScoreModel) -> tuple[list[Any], list[Any]]:
    """Nodes and weights of the score, for any number of records, or for one where layers are unknown."""
    # Only known layers keep records apart; all others must see each record alone, as they do in the model.
    apart = model.keeps_records_apart
    example = (public_probe(model)[: None if apart else 1], model.params.clone())[: 1 if model.smoothing is None else 2]
    sizes = ({0: torch.export.Dim("n")} if apart else None, None)[: len(example)]
    names = ["records" if apart else "record_batch", "draw"][: len(example)]
    try:
        with in_one_line(), torch.no_grad():
            scored = (_JointScore if model.n_cells else _Score)(model)
            program = torch.export.export(scored.eval(), example, dynamic_shapes=sizes, strict=False)
            made: Any = {"input_names": names, "output_names": ["traced_score"], "opset_version": OPSET}
            exported: Any = torch.onnx.export(program, dynamo=True, verbose=False, **made)
            graph = exported.model_proto.graph
    finally:
        model.extractor.train()
    for node in graph.node:
        # Torch notes files and folders of this machine here.
        del node.metadata_props[:]
        node.doc_string = ""
    return list(graph.node), list(graph.initializer)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Refuse in one line what torch or the runtime does not know; what they say of themselves is not shown."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # Each has classes of its own for whatever a user's code does.
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise SavedModelError(
            f"the module cannot be written as ONNX ({reason}); use layers that torch exports."
        ) from error
    finally:
        logger.setLevel(before)


def _draws(model: ScoreModel) -> Tensor:
    """The parameters with each draw of the public noise, as `ScoreModel.scores` makes it, shape (n_draws, n_params)."""
    assert model.smoothing is not None
    rng = np.random.default_rng(model.smoothing.seed)
    noise = rng.standard_normal((model.smoothing.n_draws, len(model.params)))
    return torch.add(model.params, torch.from_numpy(noise).float(), alpha=model.smoothing.deviation)
