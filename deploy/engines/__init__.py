"""The engines a deployment can run: what starts them, how they say that they are ready, what they refuse. Pure."""
