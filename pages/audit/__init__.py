"""The page Audit: what attacks measured, beside the ε that is claimed."""
