"""The same lens on PyTorch models: measures, trackers, models, data, protocols and remedies.

Needs the extra `torch`; nothing else of the package does.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "depthrank.networks needs PyTorch, which is not installed: pip install 'depthrank[torch]'.",
        name="torch",
    ) from error
