import { expect, it } from 'vitest';
import { countInTitle } from '../windowTitle';

it('counts in front of a title that somebody else writes', async () => {
  document.title = 'heights.ipynb';
  const say = countInTitle(document);
  say(0);
  expect(document.title).toBe('heights.ipynb');
  say(2);
  expect(document.title).toBe('(2) heights.ipynb');
  document.title = '(2024) data.csv';
  await Promise.resolve();
  expect(document.title).toBe('(2) (2024) data.csv');
  say(1);
  say(0);
  expect(document.title).toBe('(2024) data.csv');
});
