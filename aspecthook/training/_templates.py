"""Templates of file names: `str.format`, without what reaches into objects or fills the memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, final

_WIDEST = 99  # of a field; the longest file name has 255 bytes


def filled(template: str, *values: object, **fields: object) -> str:
    """Return a template with its fields filled in.

    Raises:
        ValueError: A field has an attribute or an index, ``{epoch.__class__}``, or a width or precision above 99.
        LookupError: A field has no value.

    Example:
        >>> filled("epoch_{:03d}-{loss:.2f}", 7, loss=0.125)
        'epoch_007-0.12'
    """
    return _Filler().vformat(template, values, fields)


@final
class _Filler(Formatter):
    # Any: as `Formatter` has it.
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if "." in field_name or "[" in field_name:
            raise ValueError(f"the field {{{field_name}}} has an attribute or an index; give a name alone")
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> Any:
        if any(int(digits) > _WIDEST for digits in re.findall(r"[0-9]{1,9}", format_spec)):
            raise ValueError(f"the width or precision of :{format_spec[:20]} is above {_WIDEST}")
        return super().format_field(value, format_spec)
