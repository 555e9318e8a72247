// SPDX-License-Identifier: MIT
'use strict';

/** Finds the addon: HOLDFAST_NODE names it; else it is where build.sh has put it. */
const fs = require('node:fs');
const path = require('node:path');

function candidates() {
  const root = path.join(__dirname, '..');
  const builds = [process.env.HOLDFAST_BUILD, path.join(root, '..', '..', 'build')];
  const files = [process.env.HOLDFAST_NODE];
  if (process.env.HOLDFAST_BUILD) files.push(path.join(builds[0], 'bindings', 'node', 'holdfast.node'));
  files.push(path.join(root, 'build', 'holdfast.node'), path.join(builds[1], 'bindings', 'node', 'holdfast.node'));
  return files.filter(Boolean);
}

const file = candidates().find((candidate) => fs.existsSync(candidate));
if (!file) throw new Error('the addon of Holdfast is not built: run build.sh in the folder of this package');
module.exports = require(path.resolve(file));
