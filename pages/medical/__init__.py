"""Page Replication of FedNER 2020: its table and figures with our results, and a live federation of silos."""
