"""The settings of a commit, under the module name from which deltalake's users import them."""

from deltaplane.properties import CommitProperties, PostCommitHookProperties, Transaction

__all__ = ["CommitProperties", "PostCommitHookProperties", "Transaction"]
