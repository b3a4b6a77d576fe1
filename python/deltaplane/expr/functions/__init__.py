"""The admitted functions and operators, a module for each family; importing this fills
`registry.ENTRIES`."""

from deltaplane.names import modules_in

modules_in(__name__, __path__)
