"""Health of the units of a network on a probe batch: feature rank, dead, dormant, saturated.

Activations are seen where they are called, not where a module is registered: functional calls,
methods and modules alike, and a module that is used twice counts as two sites. If none is seen that
is an error; a network of which nothing is known is not a healthy one.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from depthrank.baselines import measures_of
from depthrank.errors import DepthrankError
from depthrank.networks.functions import evaluating
from depthrank.networks.measures import spectra_of

__all__ = ["activation_table", "watch_activations"]

_NAMES = [
    "relu",
    "relu_",
    "relu6",
    "leaky_relu",
    "leaky_relu_",
    "elu",
    "elu_",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "hardtanh",
    "hardswish",
    "hardsigmoid",
    "tanh",
    "tanh_",
    "sigmoid",
    "sigmoid_",
    "prelu",
    "rrelu",
    "threshold",
    "logsigmoid",
    "glu",
    "softsign",
    "tanhshrink",
]
_BOUNDS = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "hardtanh": (-1.0, 1.0)}
_BOUNDS |= {"hardsigmoid": (0.0, 1.0), "relu6": (None, 6.0)}  # type: ignore[dict-item]


def _functions() -> dict[Any, str]:
    """Every callable of PyTorch that is an activation, by its name."""
    found = {}
    for place in (torch, torch.Tensor, functional, torch._C._nn):
        for name in _NAMES:
            if hasattr(place, name):
                found[getattr(place, name)] = name.rstrip("_")
    return found


_ACTIVATIONS = _functions()
_CLAMPS = {torch.clamp, torch.Tensor.clamp, torch.Tensor.clamp_, torch.clamp_min}
_CLAMPS |= {torch.Tensor.clamp_min, torch.Tensor.clamp_min_, torch.clip, torch.Tensor.clip}


@dataclass(frozen=True, eq=False)
class Site:
    """One call of an activation: where, which, and what came out."""

    name: str
    function: str
    values: Any  # [samples, units]


class _Watch(TorchFunctionMode):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.path: list[str] = []
        self.sites: list[Site] = []

    def leave(self, *_: Any) -> None:
        """Come back from a module; a hook that returned something would change its output."""
        self.path.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # While this runs the mode is off, so that an activation made of others counts once.
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = _ACTIVATIONS.get(func)
        if name is None and func in _CLAMPS and _is_relu(args, kwargs):
            name = "relu"
        if name is not None and isinstance(result, torch.Tensor) and result.ndim > 1:
            place = self.path[-1] if self.path else ""
            label = f"{place or 'model'}#{len(self.sites)}"
            self.sites.append(Site(label, name, _rows(result.detach(), self.rows)))
        return result


def _is_relu(args: Any, kwargs: Any) -> bool:
    bounds = [*args[1:], *kwargs.values()]
    return [b for b in bounds if b is not None] == [0]


def _rows(h: Any, most: int) -> Any:
    """Return samples x units: channels of images are units, positions are samples."""
    if h.ndim > 2:
        h = h.movedim(1, -1) if h.ndim > 3 else h
    h = h.reshape(-1, h.shape[-1])
    stride = math.ceil(len(h) / most)
    return h[::stride].clone()  # a later in-place operation must not change what was seen


@contextmanager
def watch_activations(model: nn.Module, *, rows: int = 4096) -> Iterator[list[Site]]:
    """Collect every activation that the model computes inside the block.

    Parameters
    ----------
    model : torch.nn.Module
        Names of sites are paths of its modules, with the number of the call: "block.1#3".
    rows : int
        Most samples kept of a site, at equal distances.

    Yields
    ------
    list of Site
        Filled in order of the calls. Values are [samples, units]: of arrays of four and more axes
        the second is taken as the units (images), of others the last.
    """
    watch = _Watch(rows)
    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda *_, n=name: watch.path.append(n)))
        handles.append(module.register_forward_hook(watch.leave, always_call=True))
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it would hide the activation in one kernel
    try:
        with watch:
            yield watch.sites
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for handle in handles:
            handle.remove()


@torch.no_grad()
def activation_table(
    model: nn.Module,
    inputs: Any,
    *,
    dormant: float = 0.025,
    firing: float = 0.01,
    saturated: float = 0.99,
    centre: bool = False,
    rows: int = 4096,
) -> list[dict[str, Any]]:
    """Measure every activation of a model on a probe batch, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        Called as model(inputs); compiled models are run as they were before.
    inputs : tensor
        The probe batch.
    dormant : float
        A unit is dormant if its mean absolute activation is at most this share of the mean over
        its site (Sokar et al. 2023).
    firing : float
        A unit fires little if it is non-zero on less than this share of samples.
    saturated : float
        A unit is saturated if it lies within (1 - saturated) of a bound, relative to the range,
        on this share of samples or more. None for unbounded activations.
    centre : bool
        Subtract the mean of every unit before the ranks of the features.
    rows : int
        Most samples kept of a site.

    Returns
    -------
    list of dict
        Per site: `name`, `function`, `units`, `samples`; `dead` (share of units that are zero on
        the whole batch), `dormant`, `low_firing`, `saturated` (shares of units, or None), the four
        measures of the features (samples x units), and `centred`. Where all units are dead all are
        dormant and every rank is 0.

    Raises
    ------
    DepthrankError
        If no activation is seen, or one is not finite.
    """
    model = getattr(model, "_orig_mod", model)
    with evaluating(model), watch_activations(model, rows=rows) as sites:
        model(inputs)
    if not sites:
        raise DepthrankError(
            f"no activation was seen in {type(model).__name__}: it may be linear, scripted, or use "
            f"one that is not known ({', '.join(dict.fromkeys(_ACTIVATIONS.values()))}). Nothing "
            "can be said of its units."
        )
    return [_row(site, dormant, firing, saturated, centre) for site in sites]


def _row(
    site: Site, dormant: float, firing: float, saturated: float, centre: bool
) -> dict[str, Any]:
    h = site.values.double() if site.values.device.type != "mps" else site.values.float()
    if not bool(torch.isfinite(h).all()):
        raise DepthrankError(f"the activation {site.name} ({site.function}) is not finite.")
    size = h.abs()
    mean = size.mean(0)
    bounds = _BOUNDS.get(site.function)
    stuck = None
    if bounds is not None:
        low, high = bounds
        width = 1 - saturated
        span = high - (low if low is not None else 0.0)
        near = h >= high - width * span
        if low is not None:
            near |= h <= low + width * span
        stuck = float((near.double().mean(0) >= saturated).double().mean())
    features = h - h.mean(0) if centre else h
    (s,) = spectra_of([features[None]])
    return {
        "name": site.name,
        "function": site.function,
        "units": h.shape[1],
        "samples": h.shape[0],
        "dead": float((size.amax(0) == 0).double().mean()),
        "dormant": float((mean <= dormant * mean.mean()).double().mean()),
        "low_firing": float(((h != 0).double().mean(0) < firing).double().mean()),
        "saturated": stuck,
        **measures_of(s),
        "centred": centre,
    }
