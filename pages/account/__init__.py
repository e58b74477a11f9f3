"""Account: who you are here, what that allows, and, for admins, who did what."""
