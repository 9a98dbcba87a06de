"""PD-ORS: which machines give a training job its workers and servers, slot by slot, decided at its arrival."""
