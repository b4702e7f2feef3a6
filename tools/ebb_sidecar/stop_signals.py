# tools/ebb_sidecar/stop_signals.py: the signals on which a tool puts things back and ends.
from __future__ import annotations

import signal


def stop_signals() -> list[signal.Signals]:
    """Ctrl-C, SIGTERM and the end of the terminal; the last one not where whoever started us has it ignored, as nohup does."""
    ends = [signal.SIGINT, signal.SIGTERM]
    return ends if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*ends, signal.SIGHUP]
