"""Where the window of the past begins (SEMANTICS 7.2)."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from slurmfair.config import Window


def window_start(window: Window, now_s: int) -> int:
    """Return the first second that counts; `now_s` itself where nothing counts yet."""
    if window.type == "cron":
        return last_firing(window.cron, window.timezone, now_s)
    size_s = max(1, round(window.size_s))
    if window.type == "sliding":
        return now_s - size_s
    anchor_s = round(window.anchor_s)
    if now_s < anchor_s:
        return now_s
    return now_s - (now_s - anchor_s) % size_s


def last_firing(expression: str, timezone: str, now_s: int) -> int:
    """Return when a cron expression last fired, at or before `now_s`."""
    from cronsim import CronSim  # imported late: only windows of type cron need it

    now = datetime.fromtimestamp(now_s, ZoneInfo(timezone))
    # When clocks go back an hour comes twice; what fired in its first pass must lie behind the start.
    beyond = datetime.fromtimestamp(now_s + 1 + 3600 * now.fold, now.tzinfo)
    firings = (round(firing.timestamp()) for firing in CronSim(expression, beyond, reverse=True))
    return next((firing_s for firing_s in firings if firing_s <= now_s), now_s)
