//! What the server runs. A script sees no other one's half, and one clock.
//!
//! Numbers of Lua are doubles: revisions and times stay far below 2^53, and go through text wherever they are compared or kept.

use std::sync::LazyLock;

use redis::Script;

/// The last revision.
pub(super) const COUNTER: &str = "\0helve:revision";
/// The names of all keys, in the order of their bytes, and of some that have expired.
pub(super) const INDEX: &str = "\0helve:index";
/// The names of all keys with a deadline, in its order.
pub(super) const DEADLINES: &str = "\0helve:deadlines";

pub(super) struct Named {
    pub(super) script: Script,
}

impl Named {
    fn new(body: &str) -> Self {
        Self {
            script: Script::new(&format!("{SHARED}{body}")),
        }
    }
}

/// `row` reads a record, as all scripts answer it: a field that is absent is `false`. `sweep` takes
/// names of keys that have expired out of the index, at most this many, and returns how many.
/// `TIME` runs on within a script while keys expire by its first instant: one that is due by `TIME`
/// and still there gets its deadline again, or its name would stay in the index for ever.
const SHARED: &str = r"
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end
local function sweep(index, deadlines, now, most)
  local due = redis.call('ZRANGEBYSCORE', deadlines, '-inf', string.format('(%.0f', now), 'LIMIT', 0, most)
  for _, key in ipairs(due) do
    local left = redis.call('PTTL', key)
    if left >= 0 then
      redis.call('ZADD', deadlines, string.format('%.0f', now + left), key)
    else
      redis.call('ZREM', deadlines, key)
      if left == -2 then redis.call('ZREM', index, key) end
    end
  end
  return #due
end
local function row(key, with_value)
  local f = redis.call('HMGET', key, 'revision', 'created_ms', 'updated_ms', 'expires_ms')
  if not f[1] then return false end
  local value = false
  if with_value then value = redis.call('HGET', key, 'value') end
  return {value, f[1], f[2], f[3], f[4], redis.call('HSTRLEN', key, 'value')}
end
";

/// KEYS: counter, index, deadlines, the keys. ARGV: lifetime, revision or empty, the values. Nothing is undone, so what may be
/// refused is looked at before anything is written.
pub(super) static STORE: LazyLock<Named> = LazyLock::new(|| {
    Named::new(
        r"
for i = 4, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'hash' and kind ~= 'none' then return redis.error_reply('WRONGTYPE ' .. kind) end
end
local now = now_ms()
local status = 'created'
local found = row(KEYS[4], false)
if found then status = 'replaced' end
if ARGV[2] ~= '' then
  local current = '0'
  if found then current = found[2] end
  if current ~= ARGV[2] then return {'conflict', {false, current, '0', '0', false, 0}} end
end
local revision = redis.call('INCR', KEYS[1])
sweep(KEYS[2], KEYS[3], now, #KEYS)
local answer
for i = 4, #KEYS do
  local key = KEYS[i]
  redis.call('HSETNX', key, 'created_ms', string.format('%.0f', now))
  redis.call('HSET', key, 'value', ARGV[i - 1], 'revision', revision, 'updated_ms', string.format('%.0f', now))
  redis.call('ZADD', KEYS[2], 0, key)
  local deadline
  if ARGV[1] == 'never' then
    redis.call('PERSIST', key)
    redis.call('HDEL', key, 'expires_ms')
    redis.call('ZREM', KEYS[3], key)
  elseif ARGV[1] ~= 'keep' then
    deadline = string.format('%.0f', now + tonumber(ARGV[1]))
    redis.call('HSET', key, 'expires_ms', deadline)
    redis.call('ZADD', KEYS[3], deadline, key)
  end
  answer = answer or row(key, false)
  -- One that is over already takes the key away.
  if deadline then redis.call('PEXPIREAT', key, deadline) end
end
return {status, answer}
",
    )
});

/// KEYS: the keys.
pub(super) static RETRIEVE: LazyLock<Named> = LazyLock::new(|| {
    Named::new(
        r"
local rows = {}
for i, key in ipairs(KEYS) do rows[i] = row(key, true) end
return rows
",
    )
});

/// KEYS: the key.
pub(super) static EXISTS: LazyLock<Named> =
    LazyLock::new(|| Named::new("return redis.call('EXISTS', KEYS[1])"));

/// KEYS: the key, index, deadlines.
pub(super) static DELETE: LazyLock<Named> = LazyLock::new(|| {
    Named::new(
        r"
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], KEYS[1])
redis.call('ZREM', KEYS[3], KEYS[1])
return true
",
    )
});

/// KEYS: counter, index, deadlines. ARGV: prefix, how many at most, and how many bytes of values,
/// if they are wanted. Answers `whole`; or `over` if there are more; or `again` if too many have
/// expired for one call. Names that no key has any more leave the index on the way. No byte of
/// UTF-8 is 255.
pub(super) static LIST: LazyLock<Named> = LazyLock::new(|| {
    Named::new(
        r"
local first, last = '-', '+'
if ARGV[1] ~= '' then first, last = '[' .. ARGV[1], '(' .. ARGV[1] .. '\255' end
local now = now_ms()
local revision = redis.call('GET', KEYS[1]) or '0'
local clock = string.format('%.0f', now)
local swept_max = 10000
if sweep(KEYS[2], KEYS[3], now, swept_max) == swept_max then
  return {revision, clock, 'again', {}}
end
if redis.call('ZLEXCOUNT', KEYS[2], first, last) > tonumber(ARGV[2]) then
  return {revision, clock, 'over', {}}
end
local rows = {}
local bytes, bytes_max = 0, tonumber(ARGV[3])
for _, key in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], first, last)) do
  local found = row(key, bytes_max)
  if found then
    bytes = bytes + found[6]
    if bytes_max and bytes > bytes_max then return {revision, clock, 'over', {}} end
    rows[#rows + 1] = {key, found}
  else
    redis.call('ZREM', KEYS[2], key)
  end
end
return {revision, clock, 'whole', rows}
",
    )
});
