"""What a commit carries, where deltalake's users import it from."""

from deltaplane.properties import CommitProperties, PostCommitHookProperties, Transaction

__all__ = ["CommitProperties", "PostCommitHookProperties", "Transaction"]
