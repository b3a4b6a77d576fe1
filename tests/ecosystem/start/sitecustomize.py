"""What users write for all programs of an environment: its libraries import deltaplane.deltalake
under the name `deltalake`."""

import deltaplane.deltalake

deltaplane.deltalake.install()
