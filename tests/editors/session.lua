-- What a user of Neovim does with one file, from opening it to :wq. Speaks to every Neovim from 0.7 on.

local steps = dofile(vim.env.STEPS)

local function codes()
  local found = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    found[diagnostic.code] = diagnostic
  end
  return found
end

local function line(number)
  return vim.api.nvim_buf_get_lines(0, number - 1, number, true)[1]
end

local function floating_text()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, true), "\n")
    end
  end
  return ""
end

local function choose(title, context)
  steps.will_choose(title)
  vim.lsp.buf.code_action(vim.fn.has("nvim-0.8") == 1 and { context = context } or context)
end

steps.play(function()
  steps.wait_until("findings when the file is opened", function() return codes().DG304 and codes().DG502 end)
  local finding = codes().DG304
  assert(finding.lnum + 1 == 10 and finding.severity == vim.diagnostic.severity.WARN and finding.source == "drygrad")
  local related = finding.user_data.lsp.relatedInformation[1]
  assert(related.location.range.start.line + 1 == 9, "the place of the cause")

  vim.api.nvim_win_set_cursor(0, { 10, finding.col })
  vim.lsp.buf.hover()
  steps.wait_until("the rule in a hover", function()
    return floating_text():find("softmax-before-cross-entropy", 1, true)
  end)

  vim.api.nvim_buf_set_lines(0, 0, 0, true, { "half = (" })
  steps.wait_until("findings move with a half-typed text", function() return codes().DG304.lnum + 1 == 11 end)
  vim.api.nvim_buf_set_lines(0, 0, 1, true, {})
  steps.wait_until("findings move back", function() return codes().DG304.lnum + 1 == 10 end)

  choose("Remove `softmax` and pass the logits")
  steps.wait_until("the fix in the text", function() return vim.endswith(line(9), "= model(images)") end)
  steps.wait_until("the finding gone with it", function() return not codes().DG304 and codes().DG502 end)

  choose("Fix all safe", { only = { "source.fixAll" }, diagnostics = {} })
  steps.wait_until("all safe fixes in the text", function() return vim.endswith(line(13), "loss.detach()") end)
  steps.wait_until("no finding left", function() return #vim.diagnostic.get(0) == 0 end)
end)
