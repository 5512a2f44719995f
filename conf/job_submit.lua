--[[
slurmfair's submit gate: a new job of a managed partition is held until the daemon has decided about it.

Put this file beside slurm.conf on the host of slurmctld (the daemon runs there too) and set JobSubmitPlugins=lua.
While the heartbeat is missing or too old, nothing is touched, so a stopped daemon never holds back a job. A site
with a script of its own calls slurmfair_gate(...) and slurmfair_guard(...) from its two functions.

The daemon turns each gated job into an administrator's hold or releases it. Until then the hold is a user's
hold in Slurm's eyes; the guard keeps the owner from lifting it. It runs at every update of any job: keep it tiny.
]]

local HEARTBEAT = "/run/slurmfair/heartbeat" -- two lines: time of the last healthy cycle; managed partitions
local MAX_AGE_S = 60
local GATE = "slurmfair:gate"

local NOT_GIVEN = 4294967294 -- Slurm's NO_VAL
local CRON_JOB = 4194304     -- Slurm's flag of scrontab jobs, which nobody may update

-- Return the managed partitions as a set, nil unless the daemon is alive.
local function managed_partitions()
   local file = io.open(HEARTBEAT, "r")
   if file == nil then return nil end
   local beat, names = file:read("*l"), file:read("*l")
   file:close()
   local age_s = os.time() - (tonumber(beat) or 0)
   if names == nil or age_s > MAX_AGE_S then return nil end
   local managed = {}
   for name in string.gmatch(names, "[^%s,]+") do managed[name] = true end
   return managed
end

-- Return the partitions a job asks for, as Slurm writes them: "a,b"; the default one if it names none.
local function asked_partitions(job_desc, part_list)
   if job_desc.partition ~= nil and job_desc.partition ~= "" then return job_desc.partition end
   for name, part in pairs(part_list or {}) do
      if part.flag_default == 1 or part.flag_default == true then return name end
   end
   return ""
end

local function is_managed(job_desc, part_list, managed)
   for name in string.gmatch(asked_partitions(job_desc, part_list), "[^%s,]+") do
      if managed[name] then return true end
   end
   return false
end

local function is_cron_job(job_desc)
   return math.floor((job_desc.bitflags or 0) / CRON_JOB) % 2 == 1
end

-- Hold a new job and say so in its admin comment, unless its priority is given: a hold by its user is a user's hold.
function slurmfair_gate(job_desc, part_list)
   local given = job_desc.priority ~= nil and job_desc.priority ~= NOT_GIVEN
   if given or is_cron_job(job_desc) then return end
   local managed = managed_partitions()
   if managed == nil or not is_managed(job_desc, part_list, managed) then return end
   local comment = job_desc.admin_comment
   job_desc.priority = 0
   job_desc.admin_comment = (comment == nil or comment == "") and GATE or comment .. " " .. GATE
end

-- Return true if an owner is about to lift the gate's hold while the daemon is alive.
function slurmfair_guard(job_desc, job_rec, modify_uid)
   local priority = job_desc.priority
   if priority == nil or priority == NOT_GIVEN or priority == 0 then return false end
   if modify_uid == 0 or modify_uid ~= job_rec.user_id or job_rec.priority ~= 0 then return false end
   local comment = " " .. (job_rec.admin_comment or "") .. " "
   return string.find(comment, " " .. GATE .. " ", 1, true) ~= nil and managed_partitions() ~= nil
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   slurmfair_gate(job_desc, part_list)
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   if slurmfair_guard(job_desc, job_rec, modify_uid) then
      slurm.log_user("slurmfair decides when this job may start; see: slurmfair explain JOB")
      return slurm.ERROR
   end
   return slurm.SUCCESS
end

return slurm.SUCCESS
