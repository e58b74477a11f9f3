"""Page Replication of Jana & Biemann 2021: the reported tables and ours."""
