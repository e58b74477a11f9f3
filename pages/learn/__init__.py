"""Page Learn: seven interactive lessons, each with a question, a guess and a chart."""
