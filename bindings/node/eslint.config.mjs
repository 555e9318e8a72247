// SPDX-License-Identifier: MIT
// The rules that find mistakes. They are listed here, so that no further package is needed.
const rules = Object.fromEntries(
  [
    'array-callback-return', 'constructor-super', 'eqeqeq', 'for-direction', 'getter-return', 'no-async-promise-executor',
    'no-class-assign', 'no-compare-neg-zero', 'no-cond-assign', 'no-const-assign', 'no-constant-binary-expression', 'no-debugger',
    'no-dupe-args', 'no-dupe-class-members', 'no-dupe-else-if', 'no-dupe-keys', 'no-duplicate-case', 'no-duplicate-imports',
    'no-empty-pattern', 'no-eval', 'no-ex-assign', 'no-fallthrough', 'no-func-assign', 'no-import-assign', 'no-implicit-coercion',
    'no-loss-of-precision', 'no-new-wrappers', 'no-obj-calls', 'no-promise-executor-return', 'no-prototype-builtins', 'no-redeclare',
    'no-self-assign', 'no-self-compare', 'no-setter-return', 'no-shadow', 'no-sparse-arrays', 'no-template-curly-in-string',
    'no-this-before-super', 'no-throw-literal', 'no-undef', 'no-unexpected-multiline', 'no-unreachable', 'no-unsafe-finally',
    'no-unsafe-negation', 'no-unused-private-class-members', 'no-use-before-define', 'no-useless-catch', 'no-useless-return',
    'no-var', 'prefer-const', 'require-yield', 'use-isnan', 'valid-typeof',
  ].map((name) => [name, 'error']),
);
rules['no-unused-vars'] = ['error', { args: 'after-used', argsIgnorePattern: '^(_|core|value)$', varsIgnorePattern: '^_$' }];
rules['no-use-before-define'] = ['error', { functions: false }];
rules['no-promise-executor-return'] = 'off'; // an early return is clearer
rules['max-lines'] = ['error', 600];

const globals = Object.fromEntries(
  [
    'process', 'Buffer', 'console', 'queueMicrotask', 'setTimeout', 'setImmediate', 'setInterval', 'AbortController', 'AbortSignal',
    'URL', 'globalThis', '__dirname',
  ].map((name) => [name, 'readonly']),
);

export default [
  { files: ['**/*.js'], languageOptions: { sourceType: 'commonjs', ecmaVersion: 2022, globals }, rules },
  { files: ['**/*.mjs'], languageOptions: { sourceType: 'module', ecmaVersion: 2022, globals }, rules },
];
