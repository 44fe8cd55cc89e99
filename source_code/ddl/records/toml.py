"""A TOML reader: the standard library's or, for Python 3.10, the package tomli."""

try:
    from tomllib import TOMLDecodeError, loads
except ModuleNotFoundError:
    from tomli import TOMLDecodeError, loads  # type: ignore[no-redef]

__all__ = ["TOMLDecodeError", "loads"]
