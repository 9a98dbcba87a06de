"""Reports to tesched how far a training is: a few lines for a training loop, on the standard library alone.

    import tesched_report

    for iteration, batch in enumerate(batches):
        loss = train(batch)
        tesched_report.report(iteration=iteration, loss=loss)
        tesched_report.throughput(steps=1)
        if iteration % 1000 == 0:
            save(model)
            tesched_report.saved()

Outside of a Slurm job, without a spool folder or a socket and without tesched nothing happens. No call waits for a disk
or a network, and none raises: what goes wrong is said once on stderr. The folder may be copied to wherever the
trainings are.
"""

from tesched_report.reporter import flush, report, saved, throughput

__all__ = ["flush", "report", "saved", "throughput"]
