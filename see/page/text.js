// SPDX-License-Identifier: MIT
// Every word of the page, in English and Chinese. A text is a string or a function of its values; the values are plain strings, and what
// comes out is only ever used as text.

const one = (n) => String(n) === "1"; // numbers come grouped, as text

const en = {
  live: "live", connecting: "connecting", again_in: (s) => `again in ${s}`, retry_now: "Try again now",
  loading: "Loading", search: "Name, label, host, token", side: "Side by side", all_stores: (n) => `all ${n} stores`,
  language: "中文", theme: "Theme: dark, light, as the system", keys: "All keys", skip: "To the list of names",
  away_for: (s) => `away for ${s}`, away_gap: (s) => `away ${s}`,
  away: (store, since, next) => `${store} has not answered for ${since}; ${next}`, trying_in: (s) => `trying again in ${s}`, trying: "trying again now", stop: ".",
  as_of: (time) => `Shown as of ${time}.`, server_away: (since) => `The server of this page has not answered for ${since}`,
  deadlock: "Deadlock", at_risk: "At risk", lost: "Lost", wanted: "Wanted", held: "Held", waiting: "Waiting", idle: "Idle", all: "All", n_names: "names", closed: "Closed",
  deadlocks: (n) => (one(n) ? "1 deadlock" : `${n} deadlocks`), clients_for: (n, s) => `${n} clients, for ${s}`,
  deadlock_line: (s, names) => `for ${s}: ${names} wait for each other`,
  fine: (n) => `${n} fine`, notes: (n) => (one(n) ? "1 note" : `${n} notes`), looked: (s) => `doctor looked ${s} ago`, not_looked: "doctor has not looked yet",
  handovers: "Hand-overs", per_second: "per second", wait: "Wait", hold: "Hold", p50_p99: "p50 solid, p99 dashed", now: "now", no_data: "nothing measured yet",
  handovers_s: "hand-overs/s", wait_p: "wait p50, p99", hold_p: "hold p50, p99",
  name: "Name", kind: "Kind", taken: "Taken", holder: "Holder", age: "Age", token: "Token", waiters: "Waiters", state: "State",
  sort_trouble: "Trouble, waiters, name", sort_name: "Name", sort_age: "Age", sort_waiters: "Waiters", sort_by: "Order",
  mutex: "mutex", rwlock: "rwlock", semaphore: "semaphore", leader: "leader",
  readers: (n) => (one(n) ? "1 reader" : `${n} readers`), writer: "1 writer", leads: "1 leads", idle_by: "idle, kept by", closed_for: (s) => `closed for ${s}`,
  left: (s) => `${s} left`, lost_ago: (s) => `lost ${s}`, released: "released", n_wait: "wait",
  changes: (n) => (one(n) ? "1 change" : `${n} changes`), in_view: (n, all) => `${n} of ${all} names in view`,
  empty: "Nobody holds or waits for anything.", empty_try: "Try:", no_match: (what) => `No name has '${what}'`, no_state: (state) => `No name has the state '${state}'`, clear: "Clear the filter",
  no_names: "The store does not answer; nothing is known of it yet.",
  choose: "Choose a name to see its holders and its queue.", wanted_by: (n) => `wanted by ${n}`, read_only: "read only", break_it: "Break…",
  held_for: (s) => `held ${s}`, idle_for: (s) => `idle ${s}`, p99_of: (s) => `p99 of this name ${s}`, renewed: (s) => `renewed ${s} ago`, left_of: (left, ttl) => `${left} of ${ttl} left`, no_ttl: "no time limit",
  detached: "detached: no process is responsible for it", permits: (n) => (one(n) ? "1 permit" : `${n} permits`), slots: (s) => `slots ${s}`, nobody_has: "Nobody has it.", lost_what: "The lease ran out while this client held it.", lost_check: "Look for a pause of that process: the load and the clock of its machine, garbage collection, its network. It may still write; only a resource that checks the token refuses it.",
  waiter: "Waiter", waits: "Waits", wants: "Wants", more: (n) => `${n} more`, more_waiters: (n) => `${n} more waiters`, more_holders: (n) => `${n} more holders`, next_is: "next in the queue:", nobody_waits: "Nobody waits.",
  cannot_list: (engine) => `${engine} cannot list waiters`, gone: "Nobody holds or waits for it any more.", no_tokens: "no tokens",
  shared: "read", exclusive: "write", upgradeable: "upgradeable read",
  who_waits: "Who waits for whom", circle_of: (n) => `1 circle of ${n}`, circles: (n) => `${n} circles`, no_circle: "Nobody waits in a circle. ", longest: (who) => `The longest queue: ${who}.`, nobody_waits_here: "Nobody waits for anything.", waits_unknown: "It is not known who waits: the store has not answered.", waits_unknown_now: "It is not known who waits now: the store does not answer.", copy: "Copy", copied: "Copied",
  full_graph: "full graph", has: "has", has_nothing: "has nothing", waits_for: (s) => `waits ${s} for`, more_wait: (n) => (one(n) ? "1 more waits" : `${n} more wait`), and_more: (n) => `+${n} more`,
  none_can: (n) => (n === 2 ? "Neither of the two can go on." : `None of the ${n} can go on.`), gives_way: (who) => `${who} will give way by itself: its call ends with a deadlock error.`,
  none_gives: "None of them gives way by itself.", to_end: (who) => `To end it, break the lease of ${who}:`, folded: (n) => `${n} clients are folded.`, group_waits: (n, s) => `${n} wait, longest ${s}`,
  doctor: "Doctor", graph: "Graph", charts: "Charts", names: "Names", all_fine: "Everything that was looked at is fine.", warning: "warning", bad: "bad", ok: "fine", note: "note", absent: "no store yet", unknown: "not known yet",
  key_move: "move", key_open: "open", key_back: "back", key_search: "search", key_sort: "sort", key_graph: "graph", key_doctor: "doctor", key_stores: "stores", parts: "parts of the page", key_side: "side by side", key_theme: "theme", key_language: "language", key_keys: "all keys", close: "Close",
  break_title: "Break a lease", break_hit: (who, s) => `${who} loses the lease that it has held for ${s}. It is told, at the latest by its next renewal; until then it may still believe that it has it, and only the fencing token stops its writes.`,
  break_next: (who) => `${who} gets it next.`, break_free: "Nobody waits for it: it will be free.", break_type: "Type the name to confirm:", break_do: "Break the lease", cancel: "Cancel",
  break_done: (name) => `The lease of ${name} is broken.`, break_failed: (why) => `The lease is not broken: ${why}`, break_unknown: "The server did not answer: whether the lease is broken is unknown.",
  token_title: "Access token", token_why: "A token is a line of the file with which holdfast serve was started (--tokens): ask the person who runs it. This page keeps the token in memory only, until it is closed.", token_label: "Bearer token:", token_use: "Use it", token_refused: "The server refused this token.",
  new_deadlock: (names) => `New deadlock: ${names}`, new_loss: (name) => `Lost: ${name}`, http: (code) => `the server says ${code}`,
};

const zh = {
  live: "实时", connecting: "连接中", again_in: (s) => `${s} 后重试`, retry_now: "立即重试",
  loading: "加载中", search: "名字、标签、主机、令牌", side: "并排", all_stores: (n) => `全部 ${n} 个存储`,
  language: "EN", theme: "主题：深色、浅色、跟随系统", keys: "全部快捷键", skip: "跳到名字列表",
  away_for: (s) => `失联 ${s}`, away_gap: (s) => `失联 ${s}`,
  away: (store, since, next) => `${store} 已 ${since} 无响应；${next}`, trying_in: (s) => `${s} 后重试`, trying: "正在重试", stop: "。",
  as_of: (time) => `显示的是 ${time} 的状态。`, server_away: (since) => `本页的服务器已 ${since} 无响应`,
  deadlock: "死锁", at_risk: "有风险", lost: "已丢失", wanted: "有人等待", held: "持有中", waiting: "等待中", idle: "空闲", all: "全部", n_names: "个名字", closed: "已关闭",
  deadlocks: (n) => `${n} 个死锁`, clients_for: (n, s) => `${n} 个客户端，持续 ${s}`,
  deadlock_line: (s, names) => `已持续 ${s}：${names} 互相等待`,
  fine: (n) => `${n} 项合格`, notes: (n) => `${n} 项说明`, looked: (s) => `${s} 前诊断`, not_looked: "尚未诊断",
  handovers: "交接", per_second: "每秒", wait: "等待时间", hold: "持有时间", p50_p99: "p50 实线，p99 虚线", now: "现在", no_data: "尚无数据",
  handovers_s: "交接/秒", wait_p: "等待 p50、p99", hold_p: "持有 p50、p99",
  name: "名字", kind: "类型", taken: "占用", holder: "持有者", age: "时长", token: "围栏令牌", waiters: "等待者", state: "状态",
  sort_trouble: "故障、等待者、名字", sort_name: "名字", sort_age: "时长", sort_waiters: "等待者", sort_by: "排序",
  mutex: "互斥锁", rwlock: "读写锁", semaphore: "信号量", leader: "选主",
  readers: (n) => `${n} 个读者`, writer: "1 个写者", leads: "1 个主", idle_by: "空闲，保留者", closed_for: (s) => `关闭 ${s}`,
  left: (s) => `剩 ${s}`, lost_ago: (s) => `已丢失 ${s}`, released: "已释放", n_wait: "个等待",
  changes: (n) => `${n} 处变化`, in_view: (n, all) => `显示 ${n} / 共 ${all} 个名字`,
  empty: "没有任何持有者或等待者。", empty_try: "试试：", no_match: (what) => `没有名字含有“${what}”`, no_state: (state) => `没有处于“${state}”状态的名字`, clear: "清除筛选",
  no_names: "存储无响应，尚无任何信息。",
  choose: "选择一个名字，查看它的持有者和等待队列。", wanted_by: (n) => `${n} 个等待者`, read_only: "只读", break_it: "强制结束…",
  held_for: (s) => `已持有 ${s}`, idle_for: (s) => `已空闲 ${s}`, p99_of: (s) => `此名字的 p99：${s}`, renewed: (s) => `${s} 前续期`, left_of: (left, ttl) => `剩 ${left}，共 ${ttl}`, no_ttl: "无期限",
  detached: "脱离进程：没有进程对它负责", permits: (n) => `${n} 个名额`, slots: (s) => `名额编号 ${s}`, nobody_has: "无人持有。", lost_what: "租约在此客户端持有期间到期。", lost_check: "检查该进程是否暂停过：机器负载、时钟、垃圾回收、网络。它可能仍在写入，只有检查围栏令牌的资源能拒绝它。",
  waiter: "等待者", waits: "已等待", wants: "请求", more: (n) => `还有 ${n} 个`, more_waiters: (n) => `还有 ${n} 个等待者`, more_holders: (n) => `还有 ${n} 个持有者`, next_is: "队列中的下一个：", nobody_waits: "无人等待。",
  cannot_list: (engine) => `${engine} 无法列出等待者`, gone: "它已没有持有者和等待者。", no_tokens: "无围栏令牌",
  shared: "读", exclusive: "写", upgradeable: "可升级读",
  who_waits: "谁在等谁", circle_of: (n) => `${n} 方循环等待`, circles: (n) => `${n} 个循环等待`, no_circle: "没有循环等待。", longest: (who) => `最长的队列在等 ${who}。`, nobody_waits_here: "没有任何等待。", waits_unknown: "谁在等待尚不清楚：存储还没有应答。", waits_unknown_now: "现在谁在等待不清楚：存储没有应答。", copy: "复制", copied: "已复制",
  full_graph: "完整等待图", has: "持有", has_nothing: "未持有", waits_for: (s) => `等待 ${s}`, more_wait: (n) => `另 ${n} 个等待`, and_more: (n) => `另 ${n} 个`,
  none_can: (n) => `这 ${n} 个客户端都无法继续。`, gives_way: (who) => `${who} 会自行让步：它的调用以死锁错误结束。`,
  none_gives: "没有一方会自行让步。", to_end: (who) => `要解除死锁，请强制结束 ${who} 的租约：`, folded: (n) => `${n} 个客户端已折叠。`, group_waits: (n, s) => `${n} 个等待，最长 ${s}`,
  doctor: "诊断", graph: "等待图", charts: "图表", names: "名字", all_fine: "检查过的各项均合格。", warning: "警告", bad: "不合格", ok: "合格", note: "说明", absent: "尚无此存储", unknown: "尚不清楚",
  key_move: "移动", key_open: "打开", key_back: "返回", key_search: "搜索", key_sort: "排序", key_graph: "等待图", key_doctor: "诊断", key_stores: "存储", parts: "页面各部分", key_side: "并排", key_theme: "主题", key_language: "语言", key_keys: "全部快捷键", close: "关闭",
  break_title: "强制结束租约", break_hit: (who, s) => `${who} 将失去已持有 ${s} 的租约。它会得到通知，最迟在下次续期时；在此之前它可能仍以为自己持有，只有围栏令牌能拦住它的写入。`,
  break_next: (who) => `接下来由 ${who} 获得。`, break_free: "无人等待，它将变为空闲。", break_type: "输入名字以确认：", break_do: "强制结束", cancel: "取消",
  break_done: (name) => `${name} 的租约已强制结束。`, break_failed: (why) => `租约没有结束：${why}`, break_unknown: "服务器没有应答：租约是否已结束，未知。",
  token_title: "访问令牌", token_why: "令牌写在启动 holdfast serve 时指定的文件里（--tokens），请向运维人员索取。令牌只保存在本页内存中，关闭即消失。", token_label: "Bearer 令牌：", token_use: "使用", token_refused: "服务器拒绝了此令牌。",
  new_deadlock: (names) => `新的死锁：${names}`, new_loss: (name) => `已丢失：${name}`, http: (code) => `服务器返回 ${code}`,
};

const languages = { en, zh };
let words = en;

export function setLanguage(code) {
  words = languages[code] ?? en;
  document.documentElement.lang = words === zh ? "zh-CN" : "en";
}

export function language() {
  return words === zh ? "zh" : "en";
}

// t("left", "8s"). A key without a text is our mistake, and is shown as itself.
export function t(key, ...values) {
  const text = words[key] ?? en[key] ?? key;
  return typeof text === "function" ? text(...values) : text;
}

// Texts that stand in the HTML: data-t is the text, data-t-label what a screen reader says (and the tooltip), data-t-aria the same without a tooltip, data-t-hint the placeholder.
export function fillTexts(root = document) {
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-t-label]")) {
    node.setAttribute("aria-label", t(node.dataset.tLabel));
    node.title = t(node.dataset.tLabel);
  }
  for (const node of root.querySelectorAll("[data-t-aria]")) node.setAttribute("aria-label", t(node.dataset.tAria));
  for (const node of root.querySelectorAll("[data-t-hint]")) node.placeholder = t(node.dataset.tHint);
}

export const tables = { en, zh };
