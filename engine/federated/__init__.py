"""Several parties that train one tagger: who holds what, what they exchange, what it costs each of them."""
