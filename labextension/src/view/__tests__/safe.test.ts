import { describe, expect, it } from 'vitest';
import { quiet } from '../markdown/safe';

describe('HTML of a model', () => {
  it('fetches no image from elsewhere, and offers it as a link', () => {
    const html = quiet(
      '<p><img src="https://evil.example/x.png?d=1" alt="a plot" srcset="//x 2x"></p>'
    );
    expect(html).not.toContain('<img');
    expect(html).toContain('href="https://evil.example/x.png?d=1"');
    expect(html).toContain('>a plot</a>');
  });

  it('keeps images that are here', () => {
    expect(quiet('<img src="data:image/png;base64,AA==" alt="x">')).toContain('<img');
  });

  it('makes no link of a source that is no address', () => {
    expect(quiet('<img src="javascript:alert(1)" alt="x">')).toBe('<a>x</a>');
  });

  it('opens links apart', () => {
    expect(quiet('<a href="https://a.b/">x</a>')).toBe(
      '<a href="https://a.b/" target="_blank" rel="noopener noreferrer">x</a>'
    );
  });

  it('lets nothing load by style, media or frame', () => {
    const html = quiet(
      '<p style="background:url(https://a.b/c)">x</p><video src="https://a.b"></video><iframe src="https://a.b"></iframe>'
    );
    expect(html).toBe('<p>x</p>');
  });
});
