"""Page Recommended settings: an ablation from the paper's settings to the recommended ones."""
