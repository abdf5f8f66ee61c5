import { act, fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ChatInputAnswers, ChatInputQuestion } from '../../ahp';
import { browser, CHAT, leave, showChat, type Stage } from './stage';

beforeEach(browser);
afterEach(leave);

const NAME: ChatInputQuestion = { id: 'name', kind: 'text', message: 'Name', min: 2, max: 5 };
const ROWS: ChatInputQuestion = {
  id: 'rows',
  kind: 'integer',
  message: 'Rows',
  min: 1,
  defaultValue: 3
};
const DAYS: ChatInputQuestion = {
  id: 'days',
  kind: 'multi-select',
  message: 'Days',
  min: 1,
  max: 1,
  options: [
    { id: 'mon', label: 'Monday' },
    { id: 'tue', label: 'Tuesday' }
  ]
};

async function asks(
  questions: readonly ChatInputQuestion[],
  answers?: ChatInputAnswers
): Promise<Stage> {
  const stage = await showChat();
  const { host } = stage.world;
  host.emit(CHAT, {
    type: 'chat/turnStarted',
    turnId: 't1',
    startedAt: new Date().toISOString(),
    message: { text: 'go', origin: { kind: 'user' } }
  });
  host.emit(CHAT, {
    type: 'chat/inputRequested',
    request: { id: 'q', message: 'Before I go on', questions, ...(answers ? { answers } : {}) }
  });
  await stage.settle();
  return stage;
}

const card = (): HTMLElement => screen.getByRole('group', { name: 'Before I go on' });
const text = (name: RegExp): HTMLInputElement => within(card()).getByRole('textbox', { name });
const rows = (): HTMLInputElement => within(card()).getByRole('spinbutton', { name: /Rows/ });
const type = (field: HTMLElement, value: string): void =>
  void fireEvent.change(field, { target: { value } });
const later = async ({ settle }: Stage): Promise<void> => {
  await act(async () => new Promise(resolve => setTimeout(resolve, 450)));
  await settle();
};

describe('the answers to a question', () => {
  it('are shared before they are sent: each field once it settles', async () => {
    const stage = await asks([NAME, ROWS]);
    type(text(/Name/), 'R');
    type(text(/Name/), 'Rain');
    expect(stage.sent('chat/inputAnswerChanged')).toEqual([]);
    await later(stage);
    type(rows(), '');
    await later(stage);
    const change = { type: 'chat/inputAnswerChanged', requestId: 'q' };
    expect(stage.sent('chat/inputAnswerChanged')).toEqual([
      {
        ...change,
        questionId: 'name',
        answer: { state: 'draft', value: { kind: 'text', value: 'Rain' } }
      },
      { ...change, questionId: 'rows', answer: { state: 'skipped' } }
    ]);
    expect(text(/Name/).value).toBe('Rain');
    expect(rows().value).toBe(''); // taken out, and not what was suggested
    expect(card().textContent).not.toContain('Somebody else');
  });

  it('begin with what was left in them, and are not said to be somebody else’s', async () => {
    await asks([NAME], { name: { state: 'draft', value: { kind: 'text', value: 'Sun' } } });
    expect(text(/Name/).value).toBe('Sun');
    expect(card().textContent).not.toContain('Somebody else');
  });

  it('follow what others type, but not in a field that one types into', async () => {
    const stage = await asks([NAME, ROWS]);
    const { host } = stage.world;
    type(text(/Name/), 'Rain');
    const theirs = { type: 'chat/inputAnswerChanged', requestId: 'q' } as const;
    host.emit(CHAT, {
      ...theirs,
      questionId: 'name',
      answer: { state: 'draft', value: { kind: 'text', value: 'Hail' } }
    });
    host.emit(CHAT, {
      ...theirs,
      questionId: 'rows',
      answer: { state: 'draft', value: { kind: 'number', value: 7 } }
    });
    await stage.settle();
    expect(text(/Name/).value).toBe('Rain');
    expect(rows().value).toBe('7');
    expect(card().textContent).toContain('Somebody else is filling this in, too.');
    await later(stage);
    expect(text(/Name/).value).toBe('Rain');
    fireEvent.click(within(card()).getByRole('button', { name: 'Answer' }));
    await stage.settle();
    expect(stage.sent('chat/inputCompleted')[0]['answers']).toEqual({
      name: { state: 'submitted', value: { kind: 'text', value: 'Rain' } },
      rows: { state: 'submitted', value: { kind: 'number', value: 7 } }
    });
  });

  it('say what is wrong with each of them, and are not sent', async () => {
    const stage = await asks([NAME, ROWS, { ...DAYS, required: true }]);
    const answer = (): void =>
      void fireEvent.click(within(card()).getByRole('button', { name: 'Answer' }));
    type(text(/Name/), 'R');
    type(rows(), '0.5');
    answer();
    expect(within(card()).getByRole('alert').textContent).toBe(
      'Name: at least 2 characters. Rows: a whole number. Days must be answered.'
    );
    type(text(/Name/), 'Rainfall');
    type(rows(), '0');
    fireEvent.click(within(card()).getByRole('checkbox', { name: 'Monday' }));
    fireEvent.click(within(card()).getByRole('checkbox', { name: 'Tuesday' }));
    answer();
    expect(within(card()).getByRole('alert').textContent).toBe(
      'Name: at most 5 characters. Rows: at least 1. Days: choose at most 1.'
    );
    expect(stage.sent('chat/inputCompleted')).toEqual([]);
  });

  it('stay when the host refuses to share them, and are sent in the end', async () => {
    const stage = await asks([NAME]);
    stage.world.host.refuses = (_, action) =>
      action.type === 'chat/inputAnswerChanged' ? 'no' : undefined;
    type(text(/Name/), 'Rain');
    await later(stage);
    await later(stage);
    expect(text(/Name/).value).toBe('Rain');
    fireEvent.click(within(card()).getByRole('button', { name: 'Answer' }));
    await stage.settle();
    expect(stage.sent('chat/inputCompleted')).toHaveLength(1);
  });
});
