import { useCallback, useEffect, useRef, useState } from 'react';
import type { ChatInputAnswer, ChatInputQuestion, ChatInputRequest, ChatInputValue } from '../ahp';

const SETTLE_MS = 400;

/** What stands in the form; undefined: nothing, or what was there was taken out. */
type Value = ChatInputValue | undefined;

/** Says what stands in a field, for the other readers and for a page that is loaded again. */
export type Tell = (questionId: string, answer: ChatInputAnswer) => Promise<void>;

export interface Answers {
  valueOf(question: ChatInputQuestion): Value;
  set(question: ChatInputQuestion, value: Value): void;
  /** Somebody else, or another page of one's own, has put something into the form. */
  readonly shared: boolean;
}

function initial(question: ChatInputQuestion): Value {
  switch (question.kind) {
    case 'text':
      return question.defaultValue === undefined
        ? undefined
        : { kind: 'text', value: question.defaultValue };
    case 'number':
    case 'integer':
      return question.defaultValue === undefined
        ? undefined
        : { kind: 'number', value: question.defaultValue };
    case 'boolean':
      return { kind: 'boolean', value: question.defaultValue ?? false };
    case 'single-select': {
      const option = question.options.find(each => each.recommended);
      return option && { kind: 'selected', value: option.id };
    }
    default:
      return undefined;
  }
}

function draftOf(value: Value): ChatInputAnswer {
  return value ? { state: 'draft', value } : { state: 'skipped' };
}

/**
 * The answers that are being given, shared with everybody who reads the chat: what is typed here goes to the host a moment
 * after it settles, what others type comes from there. A field that is typed into here is not changed by others meanwhile.
 */
export function useAnswers(request: ChatInputRequest, tell: Tell | undefined): Answers {
  const { answers = {} } = request;
  /** What was changed here and is not with the host yet, or was refused by it. */
  const [own, setOwn] = useState<ReadonlyMap<string, Value>>(new Map());
  const latest = useRef(own);
  const timers = useRef(new Map<string, ReturnType<typeof setTimeout>>());
  const teller = useRef(tell);
  teller.current = tell;
  /** What we have told, and what was there before us: anything else is somebody else's. */
  const known = useRef<Map<string, string>>();
  known.current ??= new Map(
    Object.entries(answers).map(([id, answer]) => [id, JSON.stringify(answer)])
  );

  const keep = useCallback((change: (map: Map<string, Value>) => void): void => {
    const map = new Map(latest.current);
    change(map);
    latest.current = map;
    setOwn(map);
  }, []);

  const flush = useCallback(
    (id: string): void => {
      clearTimeout(timers.current.get(id));
      timers.current.delete(id);
      if (!latest.current.has(id)) {
        return;
      }
      const value = latest.current.get(id);
      const answer = draftOf(value);
      known.current?.set(id, JSON.stringify(answer));
      teller.current?.(id, answer).then(
        () => keep(map => map.get(id) === value && map.delete(id)),
        () => undefined // it stays here, and is sent with the others in the end
      );
    },
    [keep]
  );

  const waiting = timers.current;
  useEffect(() => () => [...waiting.keys()].forEach(flush), [waiting, flush]);

  return {
    valueOf: question => {
      if (own.has(question.id)) {
        return own.get(question.id);
      }
      const answer = answers[question.id];
      return answer ? ('value' in answer ? answer.value : undefined) : initial(question);
    },
    set: ({ id }, value) => {
      keep(map => map.set(id, value));
      clearTimeout(waiting.get(id));
      waiting.set(
        id,
        setTimeout(() => flush(id), SETTLE_MS)
      );
    },
    shared: Object.entries(answers).some(
      ([id, answer]) => !own.has(id) && known.current?.get(id) !== JSON.stringify(answer)
    )
  };
}
