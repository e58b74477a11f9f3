"""Page Account: your user, role and limits, and the audit log for admins."""
