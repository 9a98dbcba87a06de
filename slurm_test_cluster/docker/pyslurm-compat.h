/*
 * Lets pyslurm 25.11 compile against Slurm 26.05; the compiler includes it before every source file (-include).
 *
 * Where 25.11 took a job id, 26.05 takes a slurm_step_id_t. Its own slurm.h has wrappers that take the job id as before,
 * for who asks for them; the two other names that pyslurm uses were renamed.
 *
 * What this cannot do: structs that are Slurm's inner ones, of which pyslurm has a copy, may have changed. One has:
 * Job.get_resource_layout_per_node() reads job_resources and ends the process with a segmentation fault.
 */
#define SLURM_BACKWARD_COMPAT

#define slurm_free_ctl_conf slurm_free_conf

/* Error 2007, which now has the name of what it says. */
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY ESLURM_MAX_JOB_COUNT
