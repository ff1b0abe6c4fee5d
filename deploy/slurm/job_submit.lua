-- Holds the batch jobs that Berth shall place; Slurm places all others itself.
-- Copy to the directory of slurm.conf, and set JobSubmitPlugins=lua there.

-- A file that the backend of Berth writes all the time (run_slurm --alive-file). If it is older
-- than this many seconds, Berth is down, and no job is held. nil: always hold.
local ALIVE_FILE = nil
local ALIVE_S = 30

-- Partitions whose jobs Berth places, for example {main = true}; nil: all.
local PARTITIONS = nil

-- Numbers that mean "not given".
local NO_VAL = {[0xfffe] = true, [0xfffffffe] = true, [0xfffffffffffffffe] = true}

local function given(value)
   return value ~= nil and value ~= "" and not NO_VAL[value]
end

local function is_alive()
   if ALIVE_FILE == nil then
      return true
   end
   local file = io.open(ALIVE_FILE)
   if file == nil then
      return false
   end
   local written = tonumber(file:read("*l"))
   file:close()
   return written ~= nil and os.time() - written <= ALIVE_S
end

local function default_partition(part_list)
   for name, part in pairs(part_list) do
      if part.flag_default == 1 then
         return name
      end
   end
end

-- One node, started now, anywhere in one partition, with features joined by &.
local function can_be_placed(job)
   return given(job.script)
      and not given(job.array_inx)
      and not given(job.req_nodes)
      and not given(job.exc_nodes)
      and not given(job.dependency)
      and not given(job.reservation)
      and not given(job.licenses)
      and not given(job.tres_per_job)
      and not given(job.tres_per_node)
      and not given(job.tres_per_socket)
      and not given(job.tres_per_task)
      and not given(job.het_job_offset)
      and (not given(job.begin_time) or job.begin_time <= os.time())
      and (not given(job.min_nodes) or job.min_nodes <= 1)
      and (not given(job.shared) or job.shared ~= 0)
      and (not given(job.priority) or job.priority ~= 0)
      and (not given(job.features) or job.features:match("^[%w_.&-]+$") ~= nil)
end

function slurm_job_submit(job, part_list, submit_uid)
   local partition = job.partition or default_partition(part_list) or ""
   local is_ours = PARTITIONS == nil or PARTITIONS[partition]
   if is_ours and not partition:find(",") and can_be_placed(job) and is_alive() then
      job.priority = 0
      job.admin_comment = "berth"
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
