// Steps, language and ground. Without this script the page shows the whole picture, in one language.
'use strict';
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const last = Number(root.dataset.steps) || 0;
  let step = 0;
  root.classList.add('js');

  // The step that a way has reached: the largest number in its picture that is not after `step`.
  function reached(svg) {
    const has = all('.now', svg).map((each) => Number(each.dataset.step)).sort((a, b) => a - b);
    return has.filter((each) => each <= step).pop() || 0;
  }

  // Steps are in the order of their numbers; in a picture they may happen in another one, so times decide.
  function paint(svg) {
    const now = step ? reached(svg) : 0;
    svg.classList.toggle('stepped', step > 0);
    const order = all('.now', svg).sort((a, b) => a.x.baseVal.value - b.x.baseVal.value).map((each) => Number(each.dataset.step));
    for (const each of all('.veil,.now', svg)) each.classList.toggle('on', Number(each.dataset.step) === now);
    for (const each of all('.s', svg)) {
      const own = order.indexOf(Number(each.dataset.step)) - order.indexOf(now);
      each.classList.toggle('past', own < 0);
      each.classList.toggle('current', own === 0);
      each.classList.toggle('later', own > 0);
    }
  }

  function go(to) {
    step = Math.max(0, Math.min(last, to));
    all('svg.scene').forEach(paint);
    for (const each of all('.steps li,.line[data-step],.walk p [data-step]')) {
      const own = Number(each.dataset.step) === step;
      each.classList.toggle('current', own && step > 0);
      if (each.closest('.walk')) each.hidden = !own;
    }
    for (const each of all('[data-go="-1"]')) each.disabled = step === 0;
    for (const each of all('[data-go="1"]')) each.disabled = step === last;
    for (const each of all('.steps li')) each.setAttribute('aria-current', each.classList.contains('current') ? 'step' : 'false');
  }

  function language() {
    root.dataset.lang = root.dataset.lang === 'en' ? 'zh' : 'en';
    root.lang = root.dataset.lang === 'en' ? 'en' : 'zh-CN';
  }

  function ground() {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme:dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  }

  document.addEventListener('click', (event) => {
    const target = event.target.closest('[data-go],[data-do],.steps li');
    if (!target) return;
    if (target.dataset.do === 'language') language();
    else if (target.dataset.do === 'ground') ground();
    else if (target.dataset.go) go(target.dataset.go === '0' ? 0 : step + Number(target.dataset.go));
    else go(Number(target.dataset.step) === step ? 0 : Number(target.dataset.step));
  });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'Enter' && event.target.matches('.steps li')) go(Number(event.target.dataset.step));
    else if (event.key === 'ArrowRight' && last) go(step + 1);
    else if (event.key === 'ArrowLeft' && last) go(step - 1);
    else if (event.key === 'Escape') go(0);
    else if (event.key === 'l') language();
    else if (event.key === 't') ground();
  });
  if (last) {
    for (const each of all('.steps li')) each.tabIndex = 0;
    const asked = /^#([0-9])$/.exec(location.hash); // page.html#3 opens at step 3
    go(asked ? Number(asked[1]) : 0);
  }
})();
