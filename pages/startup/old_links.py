"""Links of older versions that contain labels of that version.

Streamlit writes the label of a bound choice into the link. An old label selects the same option as before.
"""

import streamlit as st

OPTIONS = {
    "of": {"A printed row, set right": "Correct a reported ε"},
    "sampling": {
        text.format(unit=unit): option
        for unit in ("sentence", "client")
        for option, text in (
            ("poisson", "each {unit} by its own chance (Poisson)"),
            ("as-poisson", "shuffled, counted as if drawn by chance"),
            ("none", "fixed batches, sampling trusted for nothing"),
        )
    },
    "neighbours": {
        text.format(unit=unit): option
        for unit in ("sentence", "client")
        for option, text in (
            ("add-or-remove", "one {unit} more or less"),
            ("zero-out", "one {unit} emptied"),
            ("replace", "one {unit} exchanged for another"),
        )
    },
    "l1_published": {"as it was": "unchanged"},
    "l1_view": {
        "How many are found": "Re-identification rate",
        "What would have helped": "Defences",
        "How far they stand out": "Eccentricity",
    },
    "l2_view": {
        "What she may believe": "Posterior belief",
        "What δ is": "Meaning of δ",
        "Ten sentences of yours": "Group privacy",
    },
    "l3_ask": {"name somebody": "person"},
    "l5_view": {"What a curious server reads": "Gradient leakage", "The model travels": "Federated averaging"},
    "l6_missing": {"sampling by chance": "chance"},
    "l7_view": {"Names found": "Entities found"},
}
"""Options by the link's parameter up to its first hyphen, and by the label of version 0.7.0 or older."""


def apply() -> None:
    """Select the options of an old link, before their widgets are created."""
    for name, text in st.query_params.items():
        option = OPTIONS.get(name.partition("-")[0], {}).get(text)
        if option is not None and name not in st.session_state:
            st.session_state[name] = option
