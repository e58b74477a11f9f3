"""What pages share. Everything that touches the engine goes through engine.service."""
