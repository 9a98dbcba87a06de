"""Traces of a few jobs, one of each format."""

from __future__ import annotations

from pathlib import Path

#: job, submit, wait, run, used CPUs, -1, -1, wanted CPUs, wanted seconds, wanted KiB a CPU, status, user, …
SWF = """\
; Version: 2
; MaxNodes: 8
1 0 5 100 4 -1 -1 8 600 1024 1 7 1 -1 1 1 -1 -1
2 10 -1 50 2 -1 -1 -1 -1 -1 1 8 1 1 1 -1 -1 -1
3 20 -1 -1 2 -1 -1 2 -1 -1 0 8 1 -1 1 1 -1 -1
4 30 -1 10 -1 -1 -1 -1 -1 -1 0 8 1 -1 1 1 -1 -1
"""
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-03 00:00:00,120.0,1,120.0,vc1
2017-10-03 00:01:00,3600.5,16,0,vc2
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,5
p1,1500,2048,0,0,,BE,Succeeded,10,70,
p2,6000,12288,1,460,,BE,Running,20,,20
"""
CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc1,1,10,5530,mobilenet_v2,96,5,159,10,0,soft
1,vc2,4,12,760,alexnet,0.5,6,235,10,1,best
"""
GAVEL = """\
duration_s,num_gpus
600,1
7944.5,16
"""
SACCT = """\
JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|AllocTRES|State
101|alice|2026-11-20T10:00:00|2026-11-20T10:00:05|2026-11-20T10:02:05|120|60|1|8|64G|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|COMPLETED
101.batch||2026-11-20T10:00:05|2026-11-20T10:00:05|2026-11-20T10:02:05|120||1|8||cpu=8|COMPLETED
102_7|bob|2026-11-20T10:00:10|2026-11-20T10:01:00|2026-11-20T10:02:00|60|UNLIMITED|2|16|4Gc||FAILED
103|bob|2026-11-20T10:00:20|None|Unknown|0|60|1|1|1Gn||CANCELLED by 0
104|eve|2026-11-20T10:00:30|2026-11-20T10:00:30|2026-11-20T10:00:40|10|Partition_Limit|2|4|500Mn||TIMEOUT
"""


def written(folder: Path, text: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text(text)
    return path
