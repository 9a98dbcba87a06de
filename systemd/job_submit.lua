-- A poke at each submission: tesched polls at once, not at its next poll. docs/howto/at-once.md says what it costs.
-- With guard.bound set, a trial-and-error job that must not start by itself is held until tesched admits it; with
-- guard.te.max_submitted_per_user one that is a user's one too many is refused: docs/howto/bound.md.
--
-- Install as job_submit.lua beside slurm.conf on slurmctld's host, where the daemon has to run, too; in slurm.conf
-- JobSubmitPlugins=lua; then restart slurmctld. Needed: Debian's lua-posix or lua-socket, EPEL's lua5.1-posix and the
-- like, for the Lua that slurmctld was built with. A site with a job_submit.lua of its own takes over all up to
-- slurm_job_submit. In place of each `return slurm.SUCCESS` its own slurm_job_submit has
-- `return tesched_submitted(job_desc, part_list, submit_uid)`, and its slurm_job_modify calls tesched_modified before it,
-- as here.
--
-- No submission waits for it, and none fails by an error here: one system call that never blocks, one small file that is
-- read, and every error is swallowed. Without a daemon or a library nothing is held, and tesched finds the job at its next poll.

-- loop.socket and slurm.admission of tesched.toml
local TESCHED_SOCKET = "/run/tesched/poke.sock"
local TESCHED_ADMISSION = "/run/tesched/admission"
-- by this the daemon knows the jobs that are held here
local TESCHED_HELD = "tesched: held until admitted"

local function tesched_sender()
    local there, sys = pcall(require, "posix.sys.socket")
    if there then
        local fcntl, unistd, errno = require("posix.fcntl"), require("posix.unistd"), require("posix.errno")
        return function(said)
            local channel = sys.socket(sys.AF_UNIX, sys.SOCK_DGRAM, 0)
            -- Raises for an address that it does not like; the descriptor must not be left open.
            local called, sent, _, number = pcall(function()
                fcntl.fcntl(channel, fcntl.F_SETFL, fcntl.O_NONBLOCK)
                return sys.sendto(channel, said, { family = sys.AF_UNIX, path = TESCHED_SOCKET })
            end)
            unistd.close(channel)
            return called and (sent ~= nil or number == errno.EAGAIN)
        end
    end
    local unix = require("socket.unix")
    return function(said)
        local channel = unix.dgram()
        channel:settimeout(0)
        local sent, why = channel:sendto(said, TESCHED_SOCKET)
        channel:close()
        return sent ~= nil or why == "timeout"
    end
end

-- Unix seconds with their fractions, from the same library; without one nothing is counted.
local function tesched_clock()
    local there, time = pcall(require, "posix.sys.time")
    if there then
        return function()
            local now = time.gettimeofday()
            return now.tv_sec + now.tv_usec / 1e6
        end
    end
    return require("socket").gettime
end

local found, tesched_send = pcall(tesched_sender)
local has_clock, tesched_now = pcall(tesched_clock)
if not found then
    slurm.log_info("tesched is not poked: neither lua-posix nor lua-socket is installed")
end

-- Whose submission it is: each user has a share of the polls that submissions cause. Returns whether a daemon lives: a
-- dead one's socket refuses, and a full queue is a living one's.
local function tesched_poke(submit_uid)
    if not found then
        return false
    end
    local called, lives = pcall(tesched_send, submit_uid and string.format("submitted %d", submit_uid) or "submitted")
    return called and lives == true
end

-- What follows finds out whether a job may be trial and error, by the rules in the admission file. slurmctld fills in
-- defaults later, so a condition is true, false, or nil where that can't be known; nil counts as met.

local NO_VAL, INFINITE = 4294967294, 4294967295
local MOST_BYTES = 262144
-- A longer text is not judged: slurmctld waits meanwhile, for each rule anew.
local MOST_TEXT = 1024
local MOST_PARTITIONS, MOST_QOS = 16, 16
-- Seconds in which a daemon has polled, be it poked or not, and has held what must wait.
local SEEN_S = 5

-- The file's text, taken apart: tables of conditions by rule; nil if it says nothing that is understood.
local function tesched_parsed(text)
    local file = { rules = {}, within = {}, say = {}, uids = {}, submitted = {} }
    local conditions, ended = file.within, false
    for line in text:gmatch("([^\n]*)\n") do
        local words = {}
        for word in line:gmatch("%S+") do
            words[#words + 1] = word
        end
        local name = table.remove(words, 1)
        if name == "valid" or name == "until" or name == "most" or name == "submitted_most" or name == "counted" then
            file[name] = tonumber(words[1])
        elseif name == "open" then
            file.open = true
        elseif name == "submitted" then
            file.submitted[words[1]] = tonumber(words[2])
        elseif name == "default" then
            file.default = words[1]
        elseif name == "say" then
            file.say[words[1]] = true
        elseif name == "uid" then
            file.uids[tonumber(words[1])] = true
        elseif name == "rule" then
            conditions = {}
            file.rules[#file.rules + 1] = { class = words[1], conditions = conditions }
        elseif name == "end" then
            ended = true
        elseif name ~= "tesched-admission" then
            conditions[#conditions + 1] = { name = name, values = words }
        end
    end
    local window = file.open or file["until"] and file.most
    local counts = not file.submitted_most or file.counted
    local whole = ended and file.valid and window and counts and text:sub(1, 20) == "tesched-admission 1\n"
    return whole and file or nil
end

local tesched_text, tesched_file

-- Whether a file is there, or nothing: to open a FIFO would stop slurmctld for ever. lua-socket can't tell: there
-- `tesched config check` and `tesched doctor` do.
local has_stat, tesched_stat = pcall(require, "posix.sys.stat")

local function tesched_may_open(path)
    if not has_stat then
        return true
    end
    local called, seen = pcall(tesched_stat.stat, path)
    return called and seen ~= nil and tesched_stat.S_ISREG(seen.st_mode) ~= 0
end

local function tesched_admission()
    if not tesched_may_open(TESCHED_ADMISSION) then
        return nil
    end
    local stream = io.open(TESCHED_ADMISSION, "r")
    if not stream then
        return nil
    end
    local text = stream:read(MOST_BYTES)
    stream:close()
    if text ~= tesched_text then
        tesched_text, tesched_file = text, text and tesched_parsed(text)
    end
    return tesched_file
end

-- A job of which each field is read once, however many rules there are: slurmctld copies a text at each reading, such as a
-- script of megabytes, and finds a user's name anew.
local function tesched_read_once(job_desc)
    local fields, known = {}, {}
    return setmetatable({}, { __index = function(_, name)
        if not known[name] then
            fields[name], known[name] = job_desc[name], true
        end
        return fields[name]
    end })
end

-- A glob's pieces, one after the other: the first at the text's beginning, the last at its end.
local function tesched_fits(text, glob)
    if glob:sub(1, 1) ~= "=" then
        return nil
    end
    local pieces = {}
    for piece in (glob:sub(2) .. "*"):gmatch("([^*]*)%*") do
        pieces[#pieces + 1] = piece:gsub("%%(%x%x)", function(code)
            return string.char(tonumber(code, 16))
        end)
    end
    if #pieces == 1 then
        return text:find("^" .. pieces[1] .. "$") ~= nil
    end
    local from = 1
    for number, piece in ipairs(pieces) do
        local pattern = number == 1 and "^" .. piece or number == #pieces and piece .. "$" or piece
        local first, last = text:find(pattern, from)
        if not first then
            return false
        end
        from = last + 1
    end
    return true
end

local function tesched_any_fits(texts, globs)
    if texts == nil then
        return nil
    end
    local answer = false
    for _, text in ipairs(texts) do
        if #text > MOST_TEXT then
            return nil
        end
        for _, glob in ipairs(globs) do
            local fits = tesched_fits(text, glob)
            if fits then
                return true
            elseif fits == nil then
                answer = nil
            end
        end
    end
    return answer
end

local function tesched_one(text)
    return text and { text }
end

-- Slurm writes accounts and QOS in lower case, whatever a job says.
local function tesched_lower(text)
    return text and { #text > MOST_TEXT and text or text:lower() }
end

-- Where associations are not enforced Slurm gives a job its user's default account in place of one that it has no
-- association with, which is not seen from here. So both must agree.
local function tesched_account_fits(job_desc, globs)
    local named, usual = tesched_lower(job_desc.account), tesched_lower(job_desc.default_account)
    local fits = tesched_any_fits(named or usual, globs)
    if named and usual and tesched_any_fits(usual, globs) ~= fits then
        return nil
    end
    return fits
end

-- Without white space around it. A pattern of both ends takes a time that grows with the square of a run of spaces.
local function tesched_trimmed(text)
    local first, last = text:find("%S"), #text
    while first and text:find("^%s", last) do
        last = last - 1
    end
    return text:sub(first or 1, first and last or 0)
end

-- The partitions that it asks for, or the default one. Of many it is not known, as each is held against each rule; nor
-- where it asks for a reservation alone, which may have a partition of its own.
local function tesched_partitions(job_desc, part_list)
    local names = {}
    if #(job_desc.partition or "") > MOST_TEXT then
        return nil
    end
    local seen = {}
    for name in (job_desc.partition or ""):gmatch("[^,]+") do
        if not seen[name] then
            names[#names + 1], seen[name] = name, true
        end
    end
    if #names > MOST_PARTITIONS then
        return nil
    end
    if #names == 0 then
        if (job_desc.reservation or "") ~= "" then
            return nil
        end
        for name, part in pairs(part_list) do
            if part.flag_default == 1 then
                names[1] = name
            end
        end
    end
    return #names > 0 and names or nil
end

-- Its time limit in seconds, and whether it is known; else the longest that it may get, or nil. Without one of its own it
-- gets its partition's default, or a MaxWall of its association's or its QOS, which may be shorter and longer than that.
local function tesched_time_limit(job_desc, part_list)
    local minutes, known = job_desc.time_limit, true
    if minutes == NO_VAL then
        local names = tesched_partitions(job_desc, part_list)
        local part = names and #names == 1 and part_list[names[1]]
        minutes, known = part and part.max_time, false
    end
    if not minutes or minutes == NO_VAL then
        return nil, false
    end
    return minutes == INFINITE and math.huge or minutes * 60, known
end

-- Its QOS, or what it gets without one. That may depend on the partition.
local function tesched_qos(job_desc)
    if job_desc.qos then
        return job_desc.qos
    end
    local partition = job_desc.partition
    return partition and not partition:find(",", 1, true) and job_desc.default_qos or nil
end

-- The GPUs in one option: of a name that stands there twice Slurm takes the last count. 0 where it may be read otherwise.
local function tesched_gpus_in(text)
    local counts, sum = {}, 0
    if text:find("[^%w_:/=,.-]") or text:find("no_consume", 1, true) then
        return 0
    end
    for part in text:gsub("=", ":"):gmatch("[^,]+") do
        part = part:gsub("^gres[:/]", "")
        local name, count = part:match("^(.*):(%d+)[kmgtpKMGTP]?[iI]?[bB]?$")
        name = name or part
        if name == "gpu" or name:find("^gpu:") then
            counts[name] = tonumber(count or 1)
        end
    end
    for _, count in pairs(counts) do
        sum = sum + count
    end
    return sum
end

-- Any of several will do (24.11 and later); of many it is not known, as each is held against each rule.
local function tesched_each_qos(job_desc)
    local text, names = tesched_qos(job_desc), {}
    if not text or #text > MOST_TEXT then
        return nil
    end
    for name in text:lower():gmatch("[^,]+") do
        names[#names + 1] = name
    end
    return #names > 0 and #names <= MOST_QOS and names or nil
end

-- How many GPUs it has at least; nil where that is not known.
local function tesched_gpus(job_desc)
    local most = 0
    for _, name in ipairs({ "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }) do
        local text = job_desc[name] or ""
        if #text > MOST_TEXT then
            return nil
        end
        most = math.max(most, tesched_gpus_in(text))
    end
    return most
end

-- Of an amount that slurmctld may yet raise, only that it is too large is certain.
local function tesched_at_least(amount, high)
    if amount and amount ~= NO_VAL and high and amount > high then
        return false
    end
    return nil
end

-- Whether the amount that is asked for now is within these.
local function tesched_within(amount, low, high)
    amount = amount and amount ~= NO_VAL and amount or 1
    return not (low and amount < low) and not (high and amount > high)
end

-- Whether a time limit is within these. With --time-min Slurm may lower it to that as the job starts.
local function tesched_time_fits(job_desc, part_list, low, high)
    local limit, known = tesched_time_limit(job_desc, part_list)
    local least = limit
    if job_desc.time_min and job_desc.time_min ~= NO_VAL and job_desc.time_min > 0 then
        least = math.min(limit or math.huge, job_desc.time_min * 60)
    end
    if limit and low and limit < low or known and high and least > high then
        return false
    elseif not known or low and least < low or high and limit > high then
        return nil
    end
    return true
end

-- `seems`: amounts are taken as they are now, though slurmctld may yet raise them.
local function tesched_meets(condition, job_desc, part_list, seems)
    local name, values = condition.name, condition.values
    if name == "partitions" then
        return tesched_any_fits(tesched_partitions(job_desc, part_list), values)
    elseif name == "qos" then
        return tesched_any_fits(tesched_each_qos(job_desc), values)
    elseif name == "accounts" then
        return tesched_account_fits(job_desc, values)
    elseif name == "users" then
        return tesched_any_fits(tesched_one(job_desc.user_name), values)
    elseif name == "names" then
        return tesched_any_fits(tesched_one(job_desc.name), values)
    elseif name == "comments" then
        local comment = job_desc.comment or ""
        return tesched_any_fits({ #comment > MOST_TEXT and comment or tesched_trimmed(comment) }, values)
    elseif name == "interactive" then
        local script = job_desc.script
        return (script == nil or script == "") == (values[1] == "yes")
    end
    local low, high = tonumber(values[1]), tonumber(values[2])
    if name == "time_limit_s" then
        return tesched_time_fits(job_desc, part_list, low, high)
    elseif seems and name == "nodes" then
        return tesched_within(job_desc.min_nodes, low, high)
    elseif seems and name == "cpus" then
        return tesched_within(job_desc.min_cpus, low, high)
    elseif seems and name == "gpus" then
        local gpus = tesched_gpus(job_desc)
        return gpus and tesched_within(gpus, low, high)
    elseif name == "nodes" then
        return tesched_at_least(job_desc.min_nodes, high)
    elseif name == "cpus" then
        return tesched_at_least(job_desc.min_cpus, high)
    elseif name == "gpus" then
        return tesched_at_least(tesched_gpus(job_desc), high)
    end
    return nil
end

local function tesched_matches(conditions, job_desc, part_list, seems)
    local answer = true
    for _, condition in ipairs(conditions) do
        local called, meets = pcall(tesched_meets, condition, job_desc, part_list, seems)
        if called and meets == false then
            return false
        elseif not called or meets == nil then
            answer = nil
        end
    end
    return answer
end

-- Whether a comment has one of tesched's words by itself. With `surely` it must be one to Python, too, where spaces are
-- more than those of ASCII.
local function tesched_says(comment, wanted, surely)
    if #comment > MOST_TEXT then
        return not surely
    end
    if surely and comment:find("[^\32-\126]") then
        return false
    end
    for word in comment:gmatch("[^%s%c,;\128-\255]+") do
        if word:lower():gsub("^tesched:", "") == wanted then
            return true
        end
    end
    return false
end

local function tesched_may_be_te(file, job_desc, part_list, seems)
    local comment = job_desc.comment or ""
    if file.say.te and tesched_says(comment, "te")
        and tesched_matches(file.within, job_desc, part_list, seems) ~= false then
        return true
    end
    if file.say.be and tesched_says(comment, "be", true) then
        return false
    end
    for _, rule in ipairs(file.rules) do
        local matches = tesched_matches(rule.conditions, job_desc, part_list, seems)
        if matches ~= false and rule.class == "te" then
            return true
        elseif matches then
            return false
        end
    end
    return file.default == "te"
end

-- Whether it is TE, whatever slurmctld fills in later.
local function tesched_is_te(file, job_desc, part_list)
    local comment = job_desc.comment or ""
    if file.say.be and tesched_says(comment, "be") then
        return false
    end
    if file.say.te and tesched_says(comment, "te") then
        return tesched_says(comment, "te", true) and tesched_matches(file.within, job_desc, part_list) == true
    end
    for _, rule in ipairs(file.rules) do
        local matches = tesched_matches(rule.conditions, job_desc, part_list)
        if matches and rule.class == "te" then
            return true
        elseif matches ~= false and rule.class ~= "te" then
            return false
        end
    end
    return file.default == "te"
end

-- Tasks that are counted one by one; of more it matters only that they are many.
local MOST_TASKS = 100000
-- What slurmctld would take no array for, which it finds out after this: a longer list, a larger index than any site has.
local MOST_ARRAY_TEXT, MOST_INDEX = 4096, 4194304
-- Indices that stand there again. The loop is bound by what it does, not by what it finds.
local MOST_REPEATS = 4096

-- A number of an array's; `otherwise` where none stands there, nil for one that no site has.
local function tesched_index(text, otherwise)
    if text == "" then
        return otherwise
    end
    local number = tonumber(text)
    return number and number <= MOST_INDEX and number or nil
end

-- How many jobs it is in the queue: the tasks of an array such as [1-9:2,12]%3, each index once; of more than `most`, and
-- where it can't be counted, more than that.
local function tesched_tasks(job_desc, most)
    local text = job_desc.array_inx or ""
    if #text > MOST_ARRAY_TEXT then
        return most + 1
    end
    local seen, count, repeats = {}, 0, 0
    local enough = math.min(most, MOST_TASKS)
    for part in text:gsub("[%[%]]", ""):gmatch("[^,]+") do
        local first, last, step = part:gsub("%%.*", ""):match("^(%d+)%-?(%d*):?(%d*)$")
        first = tesched_index(first or "")
        last, step = tesched_index(last or "", first), tesched_index(step or "", 1)
        if not (first and last and step) then
            return most + 1
        end
        for index = first, last, math.max(step, 1) do
            if seen[index] then
                repeats = repeats + 1
            else
                seen[index], count = true, count + 1
            end
            if repeats > MOST_REPEATS then
                return most + 1
            elseif count > enough then
                return count
            end
        end
    end
    return math.max(count, 1)
end

-- TE jobs that were taken since the daemon has counted, by user: their times, and how many they are. What slurmctld has
-- refused after that, or only tried (--test-only), counts until the daemon counts again, or for so many seconds.
local tesched_taken = {}
local TAKEN_S = 10
-- Seconds for which a count holds.
local COUNTED_S = 30

local function tesched_taken_since(user, time)
    local kept, count, now = {}, 0, tesched_now()
    for _, one in ipairs(tesched_taken[user] or {}) do
        if one.at > time and now - one.at < TAKEN_S then
            kept[#kept + 1], count = one, count + one.tasks
        end
    end
    tesched_taken[user] = #kept > 0 and kept or nil
    return count
end

-- Whether the job is one too many TE job of its user's (guard.te.max_submitted_per_user); else it counts from here on.
local function tesched_is_one_too_many(file, job_desc, part_list)
    job_desc = tesched_read_once(job_desc)
    local user = job_desc.user_name
    if not (file.submitted_most and has_clock and user) or os.time() > file.valid then
        return false
    end
    if not tesched_is_te(file, job_desc, part_list) then
        return false
    end
    local name = user:gsub("[^%w_.~-]", function(byte)
        return string.format("%%%02X", byte:byte())
    end)
    local tasks = tesched_tasks(job_desc, file.submitted_most)
    local count = (file.submitted[name] or 0) + tesched_taken_since(user, file.counted) + tasks
    -- By a count of a daemon that hangs no job is refused.
    if count > file.submitted_most and tesched_now() - file.counted < COUNTED_S then
        slurm.log_user(string.format("with it more than %d trial-and-error jobs of %s would be in the queue (tesched: "
            .. "guard.te.max_submitted_per_user). One that ended, was refused or only tried (--test-only) a moment ago may count.",
            file.submitted_most, user))
        return true
    end
    local taken = tesched_taken[user] or {}
    taken[#taken + 1], tesched_taken[user] = { at = tesched_now(), tasks = tasks }, taken
    return false
end

-- Whether the job may be TE by the rules, and must not start by itself.
local function tesched_must_wait(file, job_desc, part_list, seems)
    local now = os.time()
    job_desc = tesched_read_once(job_desc)
    if not file or file.open or now > file.valid or not tesched_may_be_te(file, job_desc, part_list, seems) then
        return false
    end
    local limit = tesched_time_limit(job_desc, part_list)
    return now >= file["until"] or not limit or limit > file.most
end

-- Whether the job must not start now, and is to start now or never: it is refused, which is the end of it, so it has to
-- seem TE.
local function tesched_is_too_soon(file, job_desc, part_list)
    if job_desc.immediate ~= 1 or job_desc.priority ~= NO_VAL then
        return false
    end
    local waits = tesched_must_wait(file, job_desc, part_list, true)
    if waits then
        slurm.log_user("a trial-and-error job must not start now, as others come first (tesched: guard.bound, guard.te); "
            .. "without --immediate it waits")
    end
    return waits
end

local function tesched_hold(file, job_desc, part_list)
    -- Held already, or an operator's own priority; with --immediate a hold would be the end of a job that seems BE.
    -- One of a crontab (scrontab) could not be released: slurmctld refuses each change of it.
    if job_desc.priority ~= NO_VAL or job_desc.immediate == 1 or job_desc.cron_job then
        return
    end
    if tesched_must_wait(file, job_desc, part_list) then
        local other = job_desc.admin_comment or ""
        -- Beside what a site's own hook has written there.
        job_desc.admin_comment = other == "" and TESCHED_HELD or other .. "; " .. TESCHED_HELD
        job_desc.priority = 0
    end
end

-- A job that is to be made: pokes the daemon, holds the job if it must not start by itself, and returns what slurmctld is to
-- make of it.
local function tesched_submitted(job_desc, part_list, submit_uid)
    local read, file = pcall(tesched_admission)
    if not tesched_poke(submit_uid) or not read or not file then
        return slurm.SUCCESS
    end
    for _, is_refused in ipairs({ tesched_is_too_soon, tesched_is_one_too_many }) do
        local called, refused = pcall(is_refused, file, job_desc, part_list)
        if called and refused then
            return slurm.ESLURM_ACCOUNTING_POLICY
        end
    end
    pcall(tesched_hold, file, job_desc, part_list)
    return slurm.SUCCESS
end

-- What starts no job sooner, or elsewhere, where a best-effort job must not wait for it. A change of these alone is let be;
-- any other, also of what Slurm shows to no hook, may start a job.
local HARMLESS = { "mail_user", "mail_type", "std_in", "std_out", "std_err", "requeue", "wckey" }
-- What else a change shows, by its value where it stays as it was: nothing, or what scontrol sends then. Not bitflags, in
-- which Slurm sets bits of its own.
local NO_VAL16 = 65534
local SHOWN = { account = false, array_inx = false, batch_features = false, burst_buffer = false, clusters = false,
    comment = false, container = false, cpus_per_tres = false, dependency = false, exc_nodes = false, extra = false,
    features = false, licenses = false, mem_per_tres = false, min_mem_per_cpu = false, min_mem_per_node = false,
    name = false, network = false, partition = false, prefer = false, qos = false, req_context = false, req_nodes = false,
    reservation = false, tres_bind = false, tres_freq = false, tres_per_job = false, tres_per_node = false,
    tres_per_socket = false, tres_per_task = false, wckey = false, work_dir = false,
    begin_time = 0, end_time = 0, immediate = 0,
    cpu_freq_gov = NO_VAL, cpu_freq_max = NO_VAL, cpu_freq_min = NO_VAL, delay_boot = NO_VAL, max_cpus = NO_VAL,
    max_nodes = NO_VAL, min_cpus = NO_VAL, min_nodes = NO_VAL, nice = NO_VAL, num_tasks = NO_VAL,
    pn_min_tmp_disk = NO_VAL, priority = NO_VAL, req_switch = NO_VAL, site_factor = NO_VAL, time_limit = NO_VAL,
    time_min = NO_VAL, wait4switch = NO_VAL, mail_type = NO_VAL16,
    contiguous = NO_VAL16, cores_per_socket = NO_VAL16, cpus_per_task = NO_VAL16, ntasks_per_core = NO_VAL16,
    ntasks_per_node = NO_VAL16, ntasks_per_socket = NO_VAL16, ntasks_per_tres = NO_VAL16, pn_min_cpus = NO_VAL16,
    reboot = NO_VAL16, requeue = NO_VAL16, shared = NO_VAL16, sockets_per_node = NO_VAL16, threads_per_core = NO_VAL16 }

local function tesched_is_set(value)
    return value ~= nil and value ~= NO_VAL
end

-- Whether a change says nothing but what is harmless.
local function tesched_is_harmless(job_desc)
    local harmless, is_one = {}, false
    for _, name in ipairs(HARMLESS) do
        local value = job_desc[name]
        harmless[name], is_one = true, is_one or value ~= nil and value ~= SHOWN[name]
    end
    for name, unchanged in pairs(SHOWN) do
        local value = job_desc[name]
        if not harmless[name] and value ~= nil and value ~= unchanged then
            return false
        end
    end
    return is_one
end

-- Whether a pending job may start because of this change: its user releases it, or it is not held and changes.
local function tesched_frees(job_desc, job_rec)
    if job_rec.job_state % 256 ~= 0 then
        return false
    end
    if job_rec.priority == 0 then
        return tesched_is_set(job_desc.priority) and job_desc.priority ~= 0
    end
    return job_desc.priority ~= 0 and not tesched_is_harmless(job_desc)
end

-- The job as it is after the change.
local function tesched_changed(job_desc, job_rec)
    return setmetatable({}, { __index = function(_, name)
        local value = job_desc[name]
        return tesched_is_set(value) and value or job_rec[name]
    end })
end

local function tesched_put_off(job_desc, job_rec, part_list, uid)
    local file = tesched_admission()
    if not file or file.uids[uid] then
        return
    end
    if tesched_must_wait(file, tesched_changed(job_desc, job_rec), part_list) and tesched_poke(uid) then
        job_desc.begin_time = math.max(job_desc.begin_time or 0, os.time() + SEEN_S)
    end
end

-- A held job keeps its nice value while there is a file: another one would give it a priority, and it would start, also
-- where an operator holds it (22.05).
local function tesched_keep_nice(job_desc, job_rec, uid)
    if job_rec.priority == 0 and tesched_is_set(job_desc.nice) then
        local file = tesched_admission()
        if file and os.time() <= file.valid and not file.uids[uid] then
            job_desc.nice = NO_VAL
            slurm.log_user("a held job keeps its nice value")
        end
    end
end

-- A pending job that is to be changed: one that may start by that, and must not, starts no sooner than the daemon has seen
-- it, which holds it then. A user's change can't hold it with the mark: Slurm refuses an AdminComment that is set here.
-- Changes of root, of SlurmUser and of the daemon are left alone, and cause no poke.
local function tesched_modified(job_desc, job_rec, part_list, modify_uid)
    if modify_uid ~= 0 then
        pcall(tesched_keep_nice, job_desc, job_rec, modify_uid)
        local called, frees = pcall(tesched_frees, job_desc, job_rec)
        if called and frees then
            pcall(tesched_put_off, job_desc, job_rec, part_list, modify_uid)
        end
    end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    return tesched_submitted(job_desc, part_list, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    tesched_modified(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
