# SPDX-License-Identifier: MIT
"""Every public class, method and function says what it is."""

import inspect
import sys

import holdfast
import holdfast.threading

missing = []
for module in (holdfast, holdfast.threading):
    for name in module.__all__:
        thing = getattr(module, name)
        if not getattr(thing, "__module__", "").startswith("holdfast"):
            continue
        if not thing.__doc__:
            missing.append(name)
        for member in vars(thing) if inspect.isclass(thing) else ():
            value = getattr(thing, member, None)
            is_method = inspect.isfunction(value) or isinstance(vars(thing)[member], property)
            if not member.startswith("_") and is_method and not inspect.getdoc(vars(thing)[member]) and member != "of":
                missing.append(f"{name}.{member}")
if missing:
    sys.exit("no docstring: " + ", ".join(missing))
