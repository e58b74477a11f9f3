"""Page Privacy audit: lower bounds on ε from attacks, compared with the claimed ε."""
