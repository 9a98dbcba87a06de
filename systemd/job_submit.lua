-- A poke at each submission: tesched looks at once, not at its next poll. docs/howto/at-once.md says what it costs.
--
-- Install as job_submit.lua beside slurm.conf on slurmctld's host, where the daemon has to run, too; in slurm.conf
-- JobSubmitPlugins=lua; then restart slurmctld. Needed: Debian's lua-posix or lua-socket, EPEL's lua5.1-posix and the
-- like, for the Lua that slurmctld was built with. A site with a job_submit.lua of its own takes over tesched_poke and
-- calls it right before each `return slurm.SUCCESS` of its slurm_job_submit, with submit_uid.
--
-- No submission waits for it or fails by it: one system call that never blocks, and every error is swallowed. Who is not
-- there (no daemon, no library) is not missed: tesched finds the job at its next poll.

-- loop.socket of tesched.toml
local TESCHED_SOCKET = "/run/tesched/poke.sock"

local function tesched_sender()
    local there, sys = pcall(require, "posix.sys.socket")
    if there then
        local fcntl, unistd = require("posix.fcntl"), require("posix.unistd")
        return function(said)
            local channel = sys.socket(sys.AF_UNIX, sys.SOCK_DGRAM, 0)
            -- Raises for an address that it does not like; the descriptor must not be left open.
            pcall(function()
                fcntl.fcntl(channel, fcntl.F_SETFL, fcntl.O_NONBLOCK)
                sys.sendto(channel, said, { family = sys.AF_UNIX, path = TESCHED_SOCKET })
            end)
            unistd.close(channel)
        end
    end
    local unix = require("socket.unix")
    return function(said)
        local channel = unix.dgram()
        channel:settimeout(0)
        channel:sendto(said, TESCHED_SOCKET)
        channel:close()
    end
end

local found, tesched_send = pcall(tesched_sender)
if not found then
    slurm.log_info("tesched is not poked: neither lua-posix nor lua-socket is installed")
end

-- Whose submission it is: each user has a share of the looks that submissions cause.
local function tesched_poke(submit_uid)
    if found then
        pcall(tesched_send, submit_uid and string.format("submitted %d", submit_uid) or "submitted")
    end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    tesched_poke(submit_uid)
    return slurm.SUCCESS
end

-- slurmctld wants it. It does not poke: tesched's own changes of priority would come back as pokes.
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
