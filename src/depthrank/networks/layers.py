"""Which weights of a model are measured, as which matrices, and which enter an average.

Everything that can be a matrix is measured and has its row. What an average is taken over is a
rule, stated with the result, because it changes the number: stem, shortcuts, head and embeddings
can each be in or out. What cannot be measured is listed with the reason, never dropped in silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from depthrank.errors import DepthrankError
from depthrank.reshaping import CONVOLUTIONS, matrices

__all__ = ["Layer", "Rules", "Skipped", "find_layers"]

ROLES = ("stem", "body", "shortcut", "head", "embedding", "other")
_SHORTCUT = ("shortcut", "downsample", "skip")
_FUSED = (
    "c_attn",
    "qkv",
    "in_proj",
    "Wqkv",
)  # query, key and value in one weight, one after another
_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True)
class Rules:
    """What becomes of kernels, and which layers an average is taken over.

    Attributes
    ----------
    conv : {"flatten", "slices", "spatial"}
        See `depthrank.reshaping.CONVOLUTIONS`.
    stem : bool
        Count the first layer.
    shortcuts : bool
        Count projections in shortcuts (a part of the path begins with shortcut, downsample, skip).
    head : bool
        Count the last linear layer. Both in order of registration. The defaults are the rules of
        the published network experiments.
    embeddings : bool
        Count embeddings.
    roles : mapping of str to str
        Roles by name of layer, where the ones found are wrong: stem, body, shortcut, head,
        embedding, other (never counted).
    """

    conv: str = "flatten"
    stem: bool = True
    shortcuts: bool = True
    head: bool = False
    embeddings: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.conv not in CONVOLUTIONS:
            raise DepthrankError(
                f"conv is {self.conv!r}; it must be one of {', '.join(CONVOLUTIONS)}."
            )
        for name, role in self.roles.items():
            if role not in ROLES:
                raise DepthrankError(
                    f"the role of {name!r} is {role!r}; it must be one of {', '.join(ROLES)}."
                )

    def counts(self, role: str) -> bool:
        """Tell whether layers of a role enter averages."""
        switches = {
            "stem": self.stem,
            "body": True,
            "shortcut": self.shortcuts,
            "head": self.head,
            "embedding": self.embeddings,
        }
        return switches.get(role, False)

    def text(self) -> str:
        """Say it in one sentence, as stored with results."""
        left = [name for name in ROLES if not self.counts(name)]
        return f"kernels: {CONVOLUTIONS[self.conv]}; not in averages: {', '.join(left)}"


@dataclass(frozen=True, eq=False)
class Layer:
    """One weight of a model that can be measured.

    Attributes
    ----------
    name : str
        Path of the parameter, with [q], [k], [v] or [gate i] for parts of fused weights.
    kind : str
        "linear", "convolution", "transposed convolution", "embedding", "attention", "recurrent"
        or "parameter" (of a module that is not known).
    role : str
        One of stem, body, shortcut, head, embedding, other.
    counted : bool
        Whether averages include it.
    shape : tuple of int
        Of the parameter, or of its part.
    """

    name: str
    kind: str
    role: str
    counted: bool
    shape: tuple[int, ...]
    module: nn.Module
    attribute: str
    part: tuple[int, int, int] | None  # (axis, begin, end)
    conv: str
    groups: int

    def weight(self) -> Any:
        """Return the weight as it is now (a parametrised one as the network uses it), detached."""
        W = getattr(self.module, self.attribute).detach()
        if self.part is not None:
            axis, begin, end = self.part
            W = W.narrow(axis, begin, end - begin)
        return W.to_dense() if W.layout != torch.strided else W

    def stack(self, weight: Any = None) -> Any:
        """Return the matrices [b, m, n] of the weight as it is now, or of another such tensor."""
        W = self.weight() if weight is None else weight
        transposed = self.kind == "transposed convolution"
        return matrices(W, conv=self.conv, groups=self.groups, transposed=transposed)


@dataclass(frozen=True)
class Skipped:
    """A parameter that is not measured, and why."""

    name: str
    shape: tuple[int, ...]
    reason: str


def find_layers(model: nn.Module, rules: Rules | None = None) -> tuple[list[Layer], list[Skipped]]:
    """List the weights of a model: those that are measured, and those that are not.

    Parameters
    ----------
    model : torch.nn.Module
        Any; weights are read where they are, and again at every later use.
    rules : Rules, optional

    Returns
    -------
    layers, skipped
        In order of registration. Tied weights belong to the first that holds them.

    Raises
    ------
    DepthrankError
        If nothing can be measured, or the rules name a layer that is not there.
    """
    rules = Rules() if rules is None else rules
    found: list[dict[str, Any]] = []
    skipped: list[Skipped] = []
    owners: dict[int, str] = {}
    for path, module in model.named_modules():
        if "parametrizations" in path.split("."):
            continue  # seen as the weight they make
        names = [name for name, _ in module.named_parameters(recurse=False)]
        if parametrize.is_parametrized(module):
            names += [name for name in module.parametrizations if name not in names]
        for attribute in names:
            name = f"{path}.{attribute}" if path else attribute
            _look(module, attribute, name, found, skipped, owners)
    layers = [_layer(entry, rules) for entry in _with_roles(found, rules)]
    if not layers:
        raise DepthrankError(
            f"{type(model).__name__} has no weight that can be measured"
            + (
                f" ({skipped[0].name}: {skipped[0].reason})."
                if skipped
                else "; it has none at all."
            )
        )
    return layers, skipped


def _look(
    module: nn.Module,
    attribute: str,
    name: str,
    found: list[dict[str, Any]],
    skipped: list[Skipped],
    owners: dict[int, str],
) -> None:
    """Put one parameter where it belongs."""
    W = getattr(module, attribute)
    if isinstance(W, nn.parameter.UninitializedParameter):
        skipped.append(Skipped(name, (), "has no shape yet: pass data through the model first"))
        return
    shape = tuple(W.shape)
    reason = None
    if W.device.type == "meta":
        reason = "has no values (meta device)"
    elif W.ndim < 2:
        reason = "a vector or scalar; rank measures need a matrix"
    elif W.numel() == 0:
        reason = "empty"
    elif W.is_complex() or not W.is_floating_point():
        reason = f"numbers of type {W.dtype}"
    elif id(W) in owners and isinstance(W, nn.Parameter):
        reason = f"tied: the parameter {owners[id(W)]} once more"
    if reason is not None:
        skipped.append(Skipped(name, shape, reason))
        return
    owners[id(W)] = name
    kind, parts, groups = _kind(module, attribute, shape)
    if kind is None:
        skipped.append(Skipped(name, shape, "no matrix that the network multiplies by"))
        return
    for label, part in parts:
        size = list(shape)
        if part is not None:
            size[part[0]] = part[2] - part[1]
        found.append(
            {
                "name": name + label,
                "kind": kind,
                "shape": tuple(size),
                "module": module,
                "attribute": attribute,
                "part": part,
                "groups": groups,
            }
        )


_Parts = list[tuple[str, tuple[int, int, int] | None]]


def _kind(
    module: nn.Module, attribute: str, shape: tuple[int, ...]
) -> tuple[str | None, _Parts, int]:
    """Return what a parameter is, its parts by label, and its groups."""
    whole: _Parts = [("", None)]
    if isinstance(module, nn.MultiheadAttention):
        if attribute == "in_proj_weight":
            return "attention", _split(shape, 0, ("q", "k", "v")), 1
        return ("attention" if attribute.endswith("proj_weight") else None), whole, 1
    if isinstance(module, nn.RNNBase):
        gates = {"LSTM": 4, "GRU": 3}.get(module.mode, 1)
        if attribute.startswith("weight_hr") or gates == 1:
            return "recurrent", whole, 1
        return "recurrent", _split(shape, 0, tuple(f"gate {i}" for i in range(gates))), 1
    if isinstance(module, _TRANSPOSED):
        return "transposed convolution", whole, module.groups
    if isinstance(module, _CONVS):
        return "convolution", whole, module.groups
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embedding", whole, 1
    own = type(module).__name__
    if attribute == "weight" and (isinstance(module, nn.Linear) or own == "Conv1D"):
        return "linear", whole, 1
    return "parameter", whole, 1


def _split(shape: tuple[int, ...], axis: int, labels: tuple[str, ...]) -> _Parts:
    size = shape[axis] // len(labels)
    return [(f"[{label}]", (axis, i * size, (i + 1) * size)) for i, label in enumerate(labels)]


def _with_roles(found: list[dict[str, Any]], rules: Rules) -> list[dict[str, Any]]:
    """Give every entry its role, fused projections split."""
    entries = [part for entry in found for part in _unfused(entry)]
    plain = [e for e in entries if e["kind"] in ("linear", "convolution", "attention", "recurrent")]
    linear = [e for e in entries if e["kind"] == "linear"]
    for entry in entries:
        path = entry["name"].split(".")
        if entry["kind"] == "embedding":
            role = "embedding"
        elif entry["kind"] == "parameter":
            role = "other"
        elif any(part.startswith(_SHORTCUT) for part in path):
            role = "shortcut"
        elif len(plain) > 1 and entry is plain[0]:
            role = "stem"
        elif len(plain) > 1 and linear and entry is linear[-1]:
            role = "head"
        else:
            role = "body"
        entry["role"] = rules.roles.get(entry["name"], role)
    unknown = rules.roles.keys() - {entry["name"] for entry in entries}
    if unknown:
        raise DepthrankError(
            f"the rules give roles to {', '.join(sorted(unknown))}, which the model does not have; "
            f"it has {', '.join(entry['name'] for entry in entries)}."
        )
    return entries


def _unfused(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a linear weight that holds query, key and value, as its name and shape say."""
    path = entry["name"].split(".")
    own = path[-2] if len(path) > 1 else ""
    if entry["kind"] != "linear" or own not in _FUSED:
        return [entry]
    axis = 1 if type(entry["module"]).__name__ == "Conv1D" else 0  # input x output there
    if entry["shape"][axis] != 3 * entry["shape"][1 - axis]:
        return [entry]
    result = []
    for label, part in _split(entry["shape"], axis, ("q", "k", "v")):
        size = list(entry["shape"])
        size[axis] //= 3
        changed = {"name": entry["name"] + label, "part": part, "shape": tuple(size)}
        result.append({**entry, **changed, "kind": "attention"})
    return result


def _layer(entry: dict[str, Any], rules: Rules) -> Layer:
    return Layer(**entry, counted=rules.counts(entry["role"]), conv=rules.conv)
