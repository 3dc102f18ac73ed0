"""The wall clock, for people: what leases and events show. Nothing is decided by it."""

import datetime


def utc_now() -> datetime.datetime:
    """Now."""
    return datetime.datetime.now(datetime.UTC)


def micro_time(moment: datetime.datetime) -> str:
    """As the API writes a MicroTime."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
