import type { ToolContent } from '../../ahp';
import { printed } from '../../view/printed';
import type { Output } from './notebooks';

const LONGEST = 8_000;
/** Characters of base64 in a picture that goes along. */
const LARGEST = 1_000_000;
const PICTURES = ['image/png', 'image/jpeg'];

/** So much of a text, with word of what is left out; of outputs the end says more than the middle. */
export function bounded(text: string, longest = LONGEST): string {
  if (text.length <= longest) {
    return text;
  }
  const head = Math.floor(longest * 0.6);
  const tail = longest - head;
  const left = text.length - longest;
  return `${text.slice(0, head)}\n[… ${left} characters left out …]\n${text.slice(-tail)}`;
}

function joined(text: unknown): string {
  return Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
}

/** What a cell put out, as words for a model. */
export function textOfOutputs(outputs: readonly Output[], longest = LONGEST): string {
  return bounded(outputs.map(textOfOne).filter(Boolean).join('\n'), longest);
}

function textOfOne(output: Output): string {
  switch (output.output_type) {
    case 'stream':
      return printed(joined(output.text));
    case 'error':
      return printed(joined(output.traceback?.join('\n'))) || `${output.ename}: ${output.evalue}`;
    default: {
      const data = output.data ?? {};
      const picture = PICTURES.find(type => type in data);
      const text = joined(data['text/plain']) || joined(data['text/markdown']);
      const others = Object.keys(data).filter(
        type => !type.startsWith('text/') && type !== picture
      );
      return [
        text,
        picture && `[a picture, ${picture}]`,
        !text && !picture && `[output of type ${[...others, ...Object.keys(data)][0] ?? 'none'}]`
      ]
        .filter(Boolean)
        .join('\n');
    }
  }
}

/** The pictures among them, for people and for models that look at pictures. */
export function picturesOf(outputs: readonly Output[]): ToolContent[] {
  return outputs.flatMap(({ data = {} }) => {
    const contentType = PICTURES.find(type => type in data);
    const base64 = contentType ? joined(data[contentType]).replace(/\s/g, '') : '';
    return contentType && base64 && base64.length <= LARGEST
      ? [{ type: 'embeddedResource', data: base64, contentType } as const]
      : [];
  });
}

export function failedIn(outputs: readonly Output[]): Output | undefined {
  return outputs.find(({ output_type }) => output_type === 'error');
}
