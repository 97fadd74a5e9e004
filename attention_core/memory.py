"""How much memory is free, on the computer and on its GPUs."""

from pathlib import Path

import psutil
import torch


def free(device: torch.device | str = "cpu") -> int:
    """Return how many bytes are free where a device keeps its tensors: on a GPU its own memory, else the computer's."""
    device = torch.device(device)
    if device.type != "cuda":
        return _computers()
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own, to be used again
    return torch.cuda.mem_get_info(device)[0] + cached


def _computers() -> int:
    there = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")
    try:
        most, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        return min(there, int(most) - int(used))
    except (OSError, ValueError):  # no bound of its own
        return there
