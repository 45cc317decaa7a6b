"""Stacks: ways of giving NICs to pods. Each is a module that renders a Plan as objects or files.

They are registered in `trackbed.fabric.model.stack_names`.
"""

from importlib import import_module

from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.model.stack_names import STACK_MODULES

MODULES = STACK_MODULES
"""Name of a stack -> module below this package that defines STACK."""


def load_stack(name: str) -> Stack:
    """Import the module of a stack and return the stack; raises KeyError for an unknown name."""
    stack: Stack = import_module(f"trackbed.cluster.stacks.{MODULES[name]}").STACK
    return stack
