"""Texts of Explore about clients, rounds and communication. Does not use Streamlit."""

from engine.config import SimulationConfig
from engine.records import FederatedRound
from engine.service import Holdings


def federation(config: SimulationConfig) -> str:
    """Describe clients and rounds; return an empty string for central training."""
    fields = config.federation
    if fields.central:
        return ""
    clients = f"{fields.clients:,} clients" if fields.clients > 1 else "one client"
    if fields.schedule == "gradients":
        return f"{clients}, gradients at each step"
    participants = f", {fields.participants:,} participants per round" if fields.participants else ""
    rounds = f"{fields.rounds:,} rounds" if fields.rounds > 1 else "one round"
    data = ", one part of the local data each" if fields.schedule == "incremental" else ""
    return f"{clients}{participants}, {rounds}{data}"


def travelled(last: FederatedRound) -> str:
    """Describe the communication of a federation up to its last round."""
    failed = ""
    if last.failed:
        names = ", ".join(str(client + 1) for client in last.failed)
        failed = f" Excluded from the last round, since their weights were not finite: client {names}."
    drift = f" (root mean square of their L2 distances from the mean: {last.drift:.3g})" if last.update_norms else ""
    if last.clients is None or last.bytes_down is None or last.bytes_up is None:
        return f"Round {last.round:,} of {last.rounds:,}. Who takes part is secret, so the results do not name them."
    return (
        f"Round {last.round:,} of {last.rounds:,}: the server averaged the weights of {len(last.clients):,} "
        f"clients{drift}. Sent so far: {megabytes(last.bytes_down)} to clients, {megabytes(last.bytes_up)} to the "
        f"server.{failed}"
    )


def holdings(found: Holdings) -> str:
    """Describe the number of clients, sentences and tokens of a partition."""
    least, most = min(found.sentences), max(found.sentences)
    sizes = f"{least:,} sentences each" if least == most else f"{least:,} to {most:,} sentences each"
    return f"{len(found.sentences):,} clients with {sizes}, {sum(found.tokens):,} tokens in total."


def megabytes(number: int) -> str:
    """Format a number of bytes in MB or GB."""
    return f"{number / 1e6:,.1f} MB" if number < 1e9 else f"{number / 1e9:,.2f} GB"
