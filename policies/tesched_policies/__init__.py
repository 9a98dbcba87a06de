"""Policies: FitGpp, patient, the baselines, fill, Gavel, SLAQ and PD-ORS. Each proposes; none acts."""
